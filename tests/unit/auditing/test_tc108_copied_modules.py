"""TC108: the forward of a copied module that reads the original's tensors, and programs that look like it."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from marked_source import audited, hazards, lines_named, train
from torch import nn

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread")

_NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.weight = nn.Linear(4, 4), nn.Parameter(torch.randn(3, 4))
        self.register_buffer("scale", torch.ones(3))
        {setup}
    def project(self, h):
        return nn.functional.linear(h, self.weight)
    def forward(self, x):
        return {forward}
"""


def net(setup="pass", forward="self.project(self.body(x))"):
    return _NET.format(setup=setup, forward=forward)


CALL = "with torch.no_grad():\n    {0}(torch.randn(2, 4))\n"

FAULTY = {
    "a lambda over self": net("self.head = lambda h: self.project(h)", "self.head(x)").replace(
        "self.weight)\n", "self.weight)  # read\n"
    )
    + "model = Net()\ncopied = copy.deepcopy(model)  # copied\n"
    + CALL.format("copied"),
    "imported by its name": net("self.head = lambda h: h @ self.weight.T  # read", "self.head(x)")
    + "from copy import deepcopy\nmodel = Net()\ncopied = deepcopy(model)  # copied\n"
    + CALL.format("copied"),
    "a closure over a buffer": net(
        "scale = self.scale; self.end = lambda y: y * scale  # read", "self.end(self.project(x))"
    )
    + "model = Net()\ncopied = copy.deepcopy(model)  # copied\n"
    + CALL.format("copied"),
    "a list of layers in a global": "LAYERS = []\n"
    + net("LAYERS.append(self.body)", "self.project(LAYERS[0](x))  # read")
    + "model = Net()\ncopied = copy.deepcopy(model)  # copied\n"
    + CALL.format("copied"),
    "a bound method in a hook": net(
        "self.body.register_forward_pre_hook(lambda m, x: (self.enter(x[0]),))  # other",
        "self.project(self.body(x))",
    ).replace("def project", "def enter(self, x):\n        return x * self.scale.sum()  # read\n    def project")
    + "model = Net()\ncopied = copy.deepcopy(model)  # copied\n"
    + CALL.format("copied"),
    "in a part of a whole": net("self.head = lambda h: self.project(h)", "self.head(x)").replace(
        "self.weight)\n", "self.weight)  # read\n"
    )
    + "model = nn.Sequential(nn.Linear(4, 4), Net())\ncopied = copy.deepcopy(model)  # copied\n"
    + CALL.format("copied"),
    "a copy of a copy": net("self.head = lambda h: self.project(h)", "self.head(x)").replace(
        "self.weight)\n", "self.weight)  # read\n"
    )
    + "model = Net()\nfirst = copy.deepcopy(model)\nsecond = copy.deepcopy(first)  # copied\n"
    + CALL.format("second"),
    "batch norm of the original": """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        norm = self.norm
        self.normalise = lambda x: norm(x)  # read
    def forward(self, x):
        return self.normalise(x)
model = Normed()
copied = copy.deepcopy(model)  # copied
copied(torch.randn(8, 4))
""",
}

TWINS = {
    "a method": net() + "model = Net()\ncopied = copy.deepcopy(model)\n" + CALL.format("copied") + train("copied"),
    "a bound method as an attribute": net("self.head = self.project", "self.head(x)")
    + "model = Net()\ncopied = copy.deepcopy(model)\n"
    + train("model")
    + CALL.format("copied"),
    "both nets in one loss": net()
    + "model = Net()\ntarget = copy.deepcopy(model)\n"
    + "loss = (model(torch.randn(2, 4)) - target(torch.randn(2, 4))).square().mean()\n"
    + "both = zip(model.parameters(), target.parameters())\n"
    + "loss = loss + sum((p - q.detach()).square().sum() for p, q in both)\n"
    + "loss.backward()\n",
    "a shared extractor, set after the copy": net()
    + "model = Net()\nother = copy.deepcopy(model)\nother.body = model.body\n"
    + CALL.format("other"),
    "shared by the memo": net()
    + "model = Net()\nother = copy.deepcopy(model, {id(model.body): model.body})\n"
    + train("model")
    + CALL.format("other"),
    "tied weights": """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.second(self.first(x))
model = Tied()
copied = copy.deepcopy(model)
copied(torch.randn(2, 4)).sum().backward()
model(torch.randn(2, 4)).sum().backward()
""",
    "a wrapper that holds the copy, and hides the original": net()
    + """
class Bootstrap(nn.Module):
    def __init__(self, online):
        super().__init__()
        self.online, self.target = [online], copy.deepcopy(online)
    def forward(self, x):
        return (self.online[0](x) - self.target(x)).square().mean()
Bootstrap(Net())(torch.randn(2, 4)).backward()
""",
    "the original's weights as an argument": """
class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
    def forward(self, other):
        return (self.weight - other).square().sum()
first = Distance()
second = copy.deepcopy(first)
second(first.weight).backward()
""",
    "the original as an argument": """
class Distance(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
    def forward(self, other):
        return (self.weight - other.weight).square().sum()
first = Distance()
second = copy.deepcopy(first)
second(first).backward()
second(other=first).backward()
""",
    "a functional call with the original's tensors": net()
    + "model = Net()\nstructure = copy.deepcopy(model)\n"
    + "given = dict(model.named_parameters())\n"
    + "torch.func.functional_call(structure, given, (torch.randn(2, 4),)).sum().backward()\n",
    "a lambda, and only the original runs": net("self.head = lambda h: self.project(h)", "self.head(x)")
    + "model = Net()\nkept = copy.deepcopy(model)\n"
    + train("model"),
    "a copied submodule that refuses, and nothing is trained": """
class Frozen(nn.Linear):
    def __deepcopy__(self, memo):
        return self
model = nn.Sequential(Frozen(4, 4).requires_grad_(False), nn.Linear(4, 2))
other = copy.deepcopy(model)
other(torch.randn(2, 4)).sum().backward()
"""
    + "optimizer = torch.optim.SGD([p for p in other.parameters() if p.requires_grad], lr=0.1)\n"
    + "optimizer.step()\nother(torch.randn(2, 4))\nmodel(torch.randn(2, 4))\n",
}


@pytest.mark.parametrize("source", FAULTY.values(), ids=FAULTY)
def test_a_copy_that_reads_the_original_is_found(source, tmp_path):
    findings, marks = audited(source, tmp_path)
    assert (marks["copied"], marks["read"]) in lines_named(findings, "TC108")
    assert {lines[0] for lines in lines_named(findings, "TC108")} == {marks["copied"]}
    assert all(code == "TC108" for code, _ in hazards(findings))


@pytest.mark.parametrize("source", TWINS.values(), ids=TWINS)
def test_a_copy_that_reads_its_own_is_none(source, tmp_path):
    findings, _ = audited(source, tmp_path)
    assert hazards(findings) == []


def test_the_name_of_what_is_read_is_told(tmp_path):
    findings, _ = audited(FAULTY["in a part of a whole"], tmp_path)
    (message,) = {f.message for f in findings if f.code == "TC108"}
    assert "`1.weight`" in message


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.head = lambda h: h @ self.weight.T

    def forward(self, x):
        return self.head(x)


def test_nothing_is_kept_alive_and_nothing_is_left():
    call, setstate = nn.Module.__call__, vars(nn.Module)["__setstate__"]
    model = nn.Sequential(nn.Linear(2, 2))
    with tc.audit():
        copied = copy.deepcopy(model)
        copied(torch.ones(1, 2))
        assert nn.Module.__call__ is not call
        gone = [weakref.ref(copied), weakref.ref(copied[0].weight), weakref.ref(model[0].weight)]
        del copied, model
        gc.collect()
        assert [reference() for reference in gone] == [None] * 3
    assert nn.Module.__call__ is call
    assert vars(nn.Module)["__setstate__"] is setstate


def test_copies_are_what_they_are_without_an_audit():
    model = Holder()
    with tc.audit() as audit:
        copied = copy.deepcopy(model)
        before = copied(torch.ones(1, 4))
        with torch.no_grad():
            model.weight.zero_()
        after = copied(torch.ones(1, 4))
        assert before.abs().sum() > 0
        assert after.abs().sum() == 0  # which is the mistake
        assert copied.weight.abs().sum() > 0
        with torch.no_grad():
            copied.weight.fill_(2)
        assert model.weight.abs().sum() == 0
        assert vars(copied).keys() == vars(model).keys()
        assert pickle.loads(pickle.dumps(nn.Linear(2, 2))).weight.shape == (2, 2)
    assert [f.code for f in audit.report.hazards] == ["TC108"]


def test_an_exception_in_a_copy_ends_its_forward(tmp_path):
    source = (
        net("self.head = lambda h: self.project(h)", "self.head(x)")
        + "model = Net()\ncopied = copy.deepcopy(model)\n"
        + "try:\n    copied(torch.randn(2, 5).double())\nexcept RuntimeError:\n    pass\n"
        + CALL.format("model")
    )
    findings, _ = audited(source, tmp_path)
    assert [f.count for f in findings if f.code == "TC108"] == [1]  # and not 2: the original's own forward is right
