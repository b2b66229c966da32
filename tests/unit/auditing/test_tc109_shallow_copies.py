"""TC109: what shares its values with what it was to be a copy of, and programs in which that is meant."""

import copy
import gc
import weakref

import pytest
import torch
from marked_source import audited, hazards, lines_named, train
from torch import nn

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread")

NET = "net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))\n"
NO_GRAD = "with torch.no_grad():\n    {0}  # used\n"

FAULTY = {
    "a shallow module": NET
    + "frozen = copy.copy(net)  # taken\n"
    + train("net")
    + NO_GRAD.format("print(frozen(torch.ones(1, 4)).sum())"),
    "imported by its name": "from copy import copy as shallow\n"
    + NET
    + "kept = shallow(net)  # taken\n"
    + train("net")
    + NO_GRAD.format("print(kept(torch.ones(1, 4)).sum())"),
    "a teacher whose output is detached": NET
    + "teacher = copy.copy(net)  # taken\n"
    + train("net")
    + "goal = teacher(torch.ones(1, 4)).detach()  # used\n",
    "a teacher in evaluation mode": NET
    + "teacher = copy.copy(net)  # taken\nteacher.training = False\n"
    + train("net")
    + NO_GRAD.format("teacher(torch.ones(1, 4))"),
    "a shallow tensor, of which a part is written": """
image = torch.rand(3, 8, 8)
noisy = copy.copy(image)  # taken
noisy[0].zero_()  # overwritten
print((image - 1).abs().sum())  # used
""",
    "a shallow parameter": """
net = nn.Linear(4, 2)
start = copy.copy(net.weight)  # taken
"""
    + train("net")
    + "print(start.detach().sum())  # used\n",
    "a shallow dict": """
def masked(state):
    state = copy.copy(state)  # taken
    for name in ("h", "c"):
        state[name].mul_(0.5)  # overwritten
    return state
state = {"h": torch.ones(2, 3), "c": torch.ones(2, 3)}
half = masked(state)
print(state["h"].sum())  # used
""",
    "the best model by name": NET
    + """
best_net, lowest = None, 1e9
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
for _ in range(4):
    loss = net(torch.randn(8, 4)).square().mean()
    if best_net is None or loss.item() < lowest:
        best_net = net  # taken
        lowest = loss.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # overwritten
"""
    + NO_GRAD.format("best_net(torch.ones(1, 4))"),
    "used in a function": NET
    + "old_net = net  # taken\ndef evaluate(each):\n    with torch.no_grad():\n"
    + "        return each(torch.ones(1, 4)).sum()\n"
    + train("net")
    + "evaluate(old_net)  # used\n",
    "a second attribute": """
class Agent:
    def __init__(self, net):
        self.policy = net
        self.target = net  # taken
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def learn(self, x):
        goal = self.target(x).detach()  # used
        loss = (self.policy(x) - goal - 1).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # overwritten
agent = Agent(nn.Linear(4, 2))
for _ in range(3):
    agent.learn(torch.randn(8, 4))
""",
    "a list, compared in a loop": NET
    + "old = [p.data for p in net.parameters()]  # taken\n"
    + train("net")
    + "moved = 0.0\nfor p, q in zip(net.parameters(), old):\n"
    + "    moved += float((p.detach() - q).abs().sum())  # used\n",
    "a dict, written back": NET
    + "backup = dict(net.named_parameters())  # taken\n"
    + train("net")
    + "with torch.no_grad():\n    for name, p in net.named_parameters():\n        p.copy_(backup[name])  # used\n",
    "a list, all compared at once": NET
    + "def fit(net):\n    before = tuple(net.parameters())  # taken\n"
    + train("net").replace("\n", "\n    ")
    + "\n    return torch._foreach_sub(list(net.parameters()), list(before))  # used\nfit(net)\n",
}

TWINS = {
    "a deep copy": NET
    + "frozen = copy.deepcopy(net)\n"
    + train("net")
    + NO_GRAD.format("print(frozen(torch.ones(1, 4)).sum())"),
    "a shallow module that is used at once": NET
    + train("net")
    + "again = copy.copy(net)\n"
    + NO_GRAD.format("print(again(torch.ones(1, 4)).sum())"),
    "a shallow module in each evaluation": NET
    + "for _ in range(2):\n"
    + train("net", steps=1).replace("\n", "\n    ")
    + "\n    again = copy.copy(net)\n    with torch.no_grad():\n        again(torch.ones(1, 4))\n",
    "siamese branches": """
left = nn.Linear(4, 2)
right = copy.copy(left)
optimizer = torch.optim.SGD(left.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (left(torch.randn(8, 4)) - right(torch.randn(8, 4))).square().mean().backward()
    optimizer.step()
with torch.no_grad():
    right(torch.randn(8, 4))
""",
    "a shallow module that was given another part": NET
    + "probe = copy.copy(net)\nprobe._modules = dict(net._modules)\nprobe._modules['3'] = nn.Linear(2, 2)\n"
    + train("net")
    + NO_GRAD.format("probe(torch.ones(1, 4))"),
    "a shallow module that takes the other's place": NET
    + "net = copy.copy(net)\n"
    + train("net")
    + NO_GRAD.format("net(torch.ones(1, 4))"),
    "a shallow tensor that is only read": "x = torch.rand(3)\ny = copy.copy(x)\nprint((x + y).sum())\n",
    "a shallow tensor, written and read by one name": """
x = torch.rand(3)
y = copy.copy(x)
y.add_(1)
print(y.sum())
""",
    "a shallow dict of parameters": """
params = {"w": nn.Parameter(torch.ones(3)), "b": nn.Parameter(torch.ones(3))}
more = copy.copy(params)
more["c"] = nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD(more.values(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (params["w"] * params["b"] + more["c"]).sum().backward()
    optimizer.step()
print(params["w"].sum())
""",
    "a shallow dict that is written by its new keys": """
batch = {"x": torch.rand(3), "y": torch.rand(3)}
more = copy.copy(batch)
more["x"] = more["x"] + 1
more["x"].mul_(2)
print(batch["x"].sum())
""",
    "a list of parameters for all purposes": NET
    + "initial = params = list(net.parameters())\n"
    + train("net").replace("net.parameters()", "params")
    + "nn.utils.clip_grad_norm_(params, 1.0)\nprint(sum(p.norm() for p in initial))\n",
    "a reference list for gradients and penalties": NET
    + "reference = list(net.parameters())\n"
    + train("net")
    + "penalty = sum((p * p).sum() for p in reference)\ntorch.autograd.grad(penalty, reference)\n",
    "the model under a wrapper": NET
    + "orig_net = net\nnet = nn.DataParallel(net)\n"
    + train("net")
    + NO_GRAD.format("orig_net(torch.ones(1, 4))"),
    "the best model is the last one": NET
    + train("net")
    + "best_net = net\n"
    + NO_GRAD.format("best_net(torch.ones(1, 4))"),
    "a target network where one is wanted": NET
    + "with_target = False\nif with_target:\n    target = copy.deepcopy(net)\nelse:\n    target = net\n"
    + train("net")
    + NO_GRAD.format("target(torch.ones(1, 4))"),
    "a target network or not, in one line": NET
    + "with_target = False\ntarget = copy.deepcopy(net) if with_target else net\n"
    + train("net")
    + NO_GRAD.format("target(torch.ones(1, 4))"),
    "a target of an attack": NET
    + "target = net\n"
    + train("net")
    + "x = torch.ones(1, 4, requires_grad=True)\ntarget(x).sum().backward()\n",
    "an averaged model": NET
    + "from torch.optim.swa_utils import AveragedModel\nema_net = AveragedModel(net)\n"
    + train("net")
    + "ema_net.update_parameters(net)\n"
    + NO_GRAD.format("ema_net(torch.ones(1, 4))"),
    "tied weights": "encoder, decoder = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)\n"
    + "decoder.weight = encoder.weight\nref_net = nn.Sequential(encoder, decoder)\n"
    + train("ref_net"),
    "old values of data that is set anew": """
net = nn.Linear(4, 2)
for _ in range(4):
    old = [p.data for p in net.parameters()]
    net(torch.randn(8, 4)).square().mean().backward()
    for p in net.parameters():
        p.data = p.data - 0.1 * p.grad
    print(sum(float((p.data - q).abs().sum()) for p, q in zip(net.parameters(), old)))
""",
    "an assertion that it is live": NET
    + "old = list(net.parameters())\n"
    + train("net")
    + "for p, q in zip(net.parameters(), old):\n    assert torch.equal(p, q)\n",
    "the best of several, which is trained on": NET
    + "lowest = 1e9\nfor net in [nn.Linear(4, 2), nn.Linear(4, 2)]:\n"
    + "    loss = net(torch.ones(1, 4)).square().sum().item()\n"
    + "    if loss < lowest:\n        lowest = loss\n        best_net = net\nnet = best_net\n"
    + train("net")
    + NO_GRAD.format("best_net(torch.ones(1, 4))"),
    "trained by the name that it has": NET
    + "ref_net = net\n"
    + train("ref_net")
    + "net(torch.randn(8, 4))\n"
    + NO_GRAD.format("ref_net(torch.ones(1, 4))"),
    "a frozen part by name": NET
    + "frozen = net[0]\nhead = net[2]\n"
    + train("head")
    + NO_GRAD.format("frozen(torch.ones(1, 4))"),
}


@pytest.mark.parametrize("source", FAULTY.values(), ids=FAULTY)
def test_what_is_no_copy_is_found(source, tmp_path):
    findings, marks = audited(source, tmp_path)
    assert lines_named(findings, "TC109") == [(marks["taken"], marks["overwritten"], marks["used"])]
    assert {code for code, _ in hazards(findings)} == {"TC109"}


@pytest.mark.parametrize("source", TWINS.values(), ids=TWINS)
def test_what_is_meant_to_be_shared_is_none(source, tmp_path):
    findings, _ = audited(source, tmp_path)
    assert hazards(findings) == []


def test_what_copy_makes_is_what_it_makes_without_an_audit():
    net, t, items = nn.Linear(2, 2), torch.arange(3.0), {"a": torch.zeros(2)}
    with tc.audit():
        module, tensor, parameter, given = copy.copy(net), copy.copy(t), copy.copy(net.weight), copy.copy(items)
        assert module is not net
        assert module.weight is net.weight
        assert type(parameter) is nn.Parameter
        assert type(tensor) is torch.Tensor
        assert given == items
        assert given is not items
        assert copy.copy([t])[0] is t
        t[0] = 7.0
        tensor[1] = 8.0
        assert t.tolist() == tensor.tolist() == [7.0, 8.0, 2.0]
        deep = copy.deepcopy(items)
        deep["a"].add_(1)
        items["a"].sub_(1)
        assert (deep["a"].tolist(), items["a"].tolist()) == ([1.0, 1.0], [-1.0, -1.0])


def test_nothing_is_kept_alive_and_nothing_is_left():
    dispatch, reduce, call = dict(copy._copy_dispatch), torch.Tensor.__reduce_ex__, nn.Module.__call__
    reduce_parameter = nn.Parameter.__reduce_ex__
    net, t, items = nn.Linear(2, 2), torch.ones(3), {"a": torch.ones(3)}
    with tc.audit():
        shared = copy.copy(net), copy.copy(t), copy.copy(items)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        shared[0](torch.ones(1, 2)).sum().backward()
        optimizer.step()
        shared[1].add_(1)
        gone = [weakref.ref(each) for each in (net, net.weight, shared[0], t, shared[1], items["a"])]
        del net, t, items, shared, optimizer
        gc.collect()
        assert [reference() for reference in gone] == [None] * len(gone)
    assert copy._copy_dispatch == dispatch
    assert torch.Tensor.__reduce_ex__ is reduce
    assert nn.Parameter.__reduce_ex__ is reduce_parameter
    assert nn.Module.__call__ is call


def test_looking_up_names_keeps_no_local_value_alive(tmp_path):
    source = (
        "import gc, weakref\n"
        "def fit():\n"
        "    net = nn.Linear(4, 2)\n"
        "    best_net = net\n"
        "    batch = torch.randn(8, 4)\n"
        "    seen = weakref.ref(batch)\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    net(batch).sum().backward()\n"
        "    optimizer.step()\n"
        "    del batch\n"
        "    net.zero_grad()\n"
        "    gc.collect()\n"
        "    assert seen() is None\n"
        "fit()\n"
    )
    findings, _ = audited(source, tmp_path)
    assert hazards(findings) == []


def test_a_shallow_copy_in_each_of_many_steps_fills_no_table():
    net = nn.Linear(2, 2)
    with tc.audit() as audit:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(1500):
            with torch.no_grad():
                copy.copy(net)(torch.ones(1, 2))
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        shared = audit._auditor.shared_values
        assert len(shared.shallow_copies._shared) <= 1024
        assert len(shared.modules.by_id) <= 16
    assert audit.report.hazards == ()
