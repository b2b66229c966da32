"""What the linter tells of expressions, bindings and functions, without running them."""

import ast

import pytest

from torchcopy.linting.inference.file_facts import FileFacts
from torchcopy.linting.inference.summaries import Definition
from torchcopy.linting.project import Project
from torchcopy.linting.source import Source

HEAD = (
    "import copy\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn, optim\n"
)


def facts_of(text, path="script.py", project=None):
    return FileFacts(Source(str(path), text), project)


def kind_of_last(text):
    """The kind of the expression that is the last statement."""
    facts = facts_of(HEAD + text)
    assert facts.functions
    last = facts.source.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return facts.kind_of(last.value)


@pytest.mark.parametrize(
    ("text", "name", "graph"),
    [
        ("torch.zeros(3)", "tensor", False),
        ("torch.zeros(3).sum().item()", "number", None),
        ("nn.Linear(2, 1)(torch.ones(2))", "tensor", True),
        ("F.mse_loss(nn.Linear(2, 1)(torch.ones(2)), torch.ones(1))", "tensor", True),
        ("nn.Linear(2, 1)(torch.ones(2)).detach()", "tensor", False),
        ("nn.Linear(2, 1)(torch.ones(2)).detach().numpy()", "ndarray", None),
        ("nn.Linear(2, 1).weight", "parameter", None),
        ("nn.Linear(2, 1).weight * 2", "tensor", True),
        ("optim.Adam([])", "optimizer", None),
        ("optim.lr_scheduler.StepLR(None, 1)", "scheduler", None),
        ("np.zeros(3) * 2", "ndarray", None),
        ("[torch.ones(1)][0]", "tensor", False),
        ("copy.deepcopy(nn.Linear(1, 1))", "module", None),
        ("nn.Linear(1, 1).state_dict()", "state_dict", None),
        ("len([1])", "number", None),
        ("f'{1}'", "text", None),
        ("unknown(1)", "unknown", None),
        ("x = torch.ones(2)\nx = x.tolist()\nx", "list", None),
        ("x = 0\nfor _ in range(2):\n    x = torch.ones(1)\nx", "unknown", None),
        ("x = torch.ones(2)\nx += 1\nx", "tensor", False),
        ("x = y = torch.ones(2)\ny", "tensor", False),
        ("a, b = torch.ones(2), 3\nb", "number", None),
        ("for name, p in nn.Linear(1, 1).named_parameters():\n    pass\np", "parameter", None),
        ("with torch.no_grad():\n    y = nn.Linear(1, 1)(torch.ones(1))\ny", "tensor", False),
        ("x: torch.Tensor = load()\nx", "tensor", None),
        ("x: 'list[int]' = load()\nx", "unknown", None),
        ("x: list[int] = load()\nx", "list", None),
        ("def f() -> None: ...\nf", "unknown", None),
        ("def f():\n    return torch.ones(1)\nf()", "tensor", False),
        ("def f():\n    return 1, torch.ones(1)\na, b = f()\nb", "tensor", False),
        ("def f(x):\n    return f(x)\nf(1)", "unknown", None),
        ("class Net(nn.Module):\n    pass\nNet()", "module", None),
        ("class A(A):\n    pass\nA()", "other", None),
    ],
)
def test_kinds(text, name, graph):
    kind = kind_of_last(text)
    assert kind.name == name
    assert kind.graph is graph


def test_attributes_of_a_class_are_known_in_its_methods():
    facts = facts_of(
        HEAD
        + "class Agent:\n    def __init__(self):\n        self.net = None\n        self.net = nn.Linear(1, 1)\n"
        "    def act(self):\n        return self.net\n"
    )
    (act,) = [scope for scope in facts.functions if scope.name == "act"]
    (returned,) = act.nodes(ast.Return)
    assert facts.kind_of(returned.value).of == "torch.nn.Linear"


def test_a_name_of_a_comprehension_is_known_in_it_alone():
    facts = facts_of(HEAD + "p = 1\nq = [p for p in nn.Linear(1, 1).parameters()]\np")
    inside, outside = (
        node for node in facts.module.nodes(ast.Name) if node.id == "p" and type(node.ctx) is ast.Load
    )
    assert facts.kind_of(inside).name == "parameter"
    assert facts.kind_of(outside).name == "number"


def test_other_files_of_the_project(tmp_path):
    package = tmp_path / "package"
    (package / "nets").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "nets" / "__init__.py").write_text("from .small import Net\n")
    (package / "nets" / "small.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (package / "steps.py").write_text(
        "from .nets import Net\ndef step(optimizer):\n    optimizer.step()\n    return Net()\n"
    )
    text = "from package.steps import step\nfrom .nets import Net\nNet()\nstep(1)\n"
    project = Project()
    facts = facts_of(text, package / "main.py", project)
    made, stepped = (each.value for each in facts.source.tree.body[-2:])
    assert facts.functions
    assert facts.kind_of(made).name == "module"
    assert facts.kind_of(stepped).name == "module"
    found = facts.definition(stepped.func)
    assert found is not None
    assert facts.done_by(found).steps
    assert {path.rpartition("/")[2] for path in project.used} == {"__init__.py", "small.py", "steps.py"}


@pytest.mark.parametrize("first", [0, 1, 2, 3, 4, 5, 6])
def test_what_a_function_does_is_the_same_whichever_is_asked_about_first(first):
    chain = "".join(f"def f{n}(optimizer):\n    f{n + 1}(optimizer)\n" for n in range(7))
    around = "def f7(optimizer):\n    optimizer.step()\n    f3(optimizer)\n"
    facts = facts_of(chain + around)
    functions = [each for each in facts.functions if each is not facts.module]
    order = [first, *range(8)]
    steps = {n: facts.done_by(Definition(facts, functions[n])).steps for n in order}
    assert steps == {0: False, 1: False, 2: False, 3: True, 4: True, 5: True, 6: True, 7: True}


def test_files_that_are_broken_or_missing_are_unknown(tmp_path):
    (tmp_path / "broken.py").write_text("def (:\n")
    facts = facts_of("from broken import f\nfrom missing import g\nf()\ng()\n", tmp_path / "main.py")
    assert facts.functions
    assert [facts.kind_of(each.value).name for each in facts.source.tree.body[-2:]] == ["unknown", "unknown"]


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("for x in y:\n    mark", 1),
        ("for x in mark:\n    pass", 0),
        ("while mark:\n    pass", 0),
        ("for x in y:\n    while True:\n        mark", 2),
        ("for x in y:\n    def f():\n        mark", 0),
    ],
)
def test_loops_around_a_node(text, loops):
    facts = facts_of(text)
    (node,) = [node for scope in facts.functions for node in scope.nodes(ast.Name) if node.id == "mark"]
    assert len(facts.loops(node)) == loops


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("with torch.no_grad():\n    mark", True),
        ("with torch.set_grad_enabled(False):\n    mark", True),
        ("with torch.set_grad_enabled(training):\n    mark", False),
        ("@torch.inference_mode()\ndef f():\n    mark", True),
        ("with open('x') as file:\n    mark", False),
    ],
)
def test_without_a_graph(text, without):
    facts = facts_of(HEAD + text)
    (node,) = [node for scope in facts.functions for node in scope.nodes(ast.Name) if node.id == "mark"]
    assert facts.is_without_graph(node) is without
