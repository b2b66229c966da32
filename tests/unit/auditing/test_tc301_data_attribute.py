"""TC301: `.data` and writes through detached aliases, looked for only where somebody asks."""

import pytest
import torch
from marked_source import audited, hazards, lines_named

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread")

W = "w = torch.ones(3, requires_grad=True)\n"

FAULTY = {
    "a write through data": (W + "w.data.add_(1)  # taken\n", ["taken"]),
    "a read": (W + "total = w.data.sum()  # taken\n", ["taken"]),
    "a part that is set": (W + "w.data[0] = 5.0  # taken\n", ["taken"]),
    "data that is set": (W + "w.data = torch.zeros(3)  # taken\n", ["taken"]),
    "read and set": (W + "w.data = w.data * 0.5  # taken\n", ["taken", "taken"]),
    "a detached alias": (W + "d = w.detach()  # taken\nd.mul_(2)  # written\n", ["taken+written"]),
    "a part of a detached alias": (
        W + "row = w.detach()[1:]  # taken\nrow[0] = 2.0  # written\n",
        ["taken+written"],
    ),
    "a detached alias of a result": (
        W + "y = w * 2\nd = y.detach()  # taken\nd += 1  # written\n",
        ["taken+written"],
    ),
}

TWINS = {
    "a write under no_grad": W + "with torch.no_grad():\n    w.add_(1)\n",
    "a read of a detached alias": W + "print(w.detach().sum())\n",
    "a detached alias under no_grad": W + "d = w.detach()\nwith torch.no_grad():\n    d.mul_(2)\n",
    "a detached copy": W + "d = w.detach().clone()\nd.mul_(2)\n",
    "a detached tensor that requires no gradient": "d = torch.ones(3).detach()\nd.mul_(2)\n",
    "an optimizer": W
    + "optimizer = torch.optim.Adam([w], lr=0.1)\nw.square().sum().backward()\noptimizer.step()\n",
    "another attribute": "class Batch:\n    data = torch.ones(3)\nBatch.data.add_(1)\nprint(Batch().data.sum())\n",
    "what PyTorch does itself": "m = nn.Linear(2, 2)\nm.to(torch.float64)\nm.zero_grad()\n"
    "nn.utils.parametrizations.weight_norm(m)\n",
}


@pytest.mark.parametrize(("source", "expected"), FAULTY.values(), ids=FAULTY)
def test_what_goes_around_autograd_is_found(source, expected, tmp_path):
    findings, marks = audited(source, tmp_path, select=["TC301"])
    named = lines_named(findings, "TC301")
    assert sorted(named) == sorted(tuple(marks[mark] for mark in marked.split("+")) for marked in expected)
    assert {f.code for f in findings} == {"TC301"}


@pytest.mark.parametrize("source", TWINS.values(), ids=TWINS)
def test_what_autograd_knows_of_is_none(source, tmp_path):
    findings, _ = audited(source, tmp_path, select=["TC3"])
    assert findings == ()


@pytest.mark.parametrize("options", [{}, {"select": ["TC1", "TC2"]}, {"select": ["TC3"], "ignore": ["TC301"]}])
def test_it_is_off_unless_it_is_asked_for(options, tmp_path):
    source = W + "w.data.add_(1)\nd = w.detach()\nd.add_(1)\nprint(w.sum())\n"
    findings, _ = audited(source, tmp_path, **options)
    assert lines_named(findings, "TC301") == []
    assert hazards(findings) == []


def test_the_attribute_does_what_it_does():
    w, there = torch.ones(3, requires_grad=True), vars(torch.Tensor).get("data")
    with tc.audit(select=["TC301"]):
        alias = w.data
        alias.add_(1)
        assert w.tolist() == [2.0, 2.0, 2.0]
        assert (w._version, alias.requires_grad) == (0, False)
        w.data = torch.zeros(3)
        assert w.tolist() == [0.0, 0.0, 0.0]
        assert alias.tolist() == [2.0, 2.0, 2.0]
    assert vars(torch.Tensor).get("data") is there
