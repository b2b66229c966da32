"""A snapshot tells how it holds each tensor, and why some were copied at once though the mode is another."""

import numpy as np
import pytest
import torch
from torch import nn

import torchcopy as tc

KB = 1024
UNUSUAL = {
    "from_numpy": (lambda: torch.from_numpy(np.arange(6.0)), lambda t: t.add_(1)),
    "frombuffer": (lambda: torch.frombuffer(bytearray(16), dtype=torch.float32), lambda t: t.add_(1)),
    "shared_memory": (lambda: torch.ones(5).share_memory_(), lambda t: t.add_(1)),
    "sparse": (lambda: torch.eye(3).to_sparse().coalesce(), lambda t: t.values().mul_(2)),
    "sparse_csr": (lambda: torch.eye(3).to_sparse_csr(), lambda t: t.values().mul_(2)),
}
"""Values that PyTorch has no copy-on-write for, with a way to write each."""


def values_of(t):
    return (t.to_dense() if t.layout is not torch.strided else t).detach().clone()


@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.parametrize("name", UNUSUAL)
def test_what_cannot_be_lazy_is_copied_and_that_is_told(mode, name):
    make, write = UNUSUAL[name]
    value = make()
    values = {"plain": torch.ones(4), name: value}
    history = tc.History(values=values, rng=False, mode=mode)
    wanted = {key: values_of(t) for key, t in values.items()}
    snapshot = history.take()
    (told,) = snapshot.report.fallbacks
    assert told.path == f"values[{name!r}]"
    assert told.how == "copied"
    assert told.why.startswith("PyTorch has no copy-on-write for")
    assert f"  values[{name!r}]: copied at once: {told.why}" in str(snapshot.report).splitlines()
    write(value)
    values["plain"].zero_()
    for key, t in snapshot.state("values").items():
        assert torch.equal(values_of(t), wanted[key])
        write(t) if key == name else t.zero_()
    for key, t in snapshot.state("values").items():
        assert torch.equal(values_of(t), wanted[key])
    if name not in ("sparse", "sparse_csr"):
        snapshot.restore()
        assert torch.equal(values_of(value), wanted[name])
        write(value)
        assert torch.equal(values_of(snapshot.state("values")[name]), wanted[name])


@pytest.mark.parametrize("mode", ["lazy", "background"])
@pytest.mark.filterwarnings("ignore:.*quantize:UserWarning", "ignore:.*quantize:DeprecationWarning")
def test_quantized_values_are_copied_and_that_is_told(mode):
    value = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 0, torch.qint8)
    history = tc.History(values=[value], rng=False, mode=mode)
    snapshot, wanted = history.take(), value.int_repr().clone()
    assert [t.path for t in snapshot.report.fallbacks] == ["values[0]"]
    value.copy_(torch.zeros(4))
    assert torch.equal(snapshot.state("values")[0].int_repr(), wanted)
    snapshot.restore()
    assert torch.equal(value.int_repr(), wanted)


def test_reports_tell_how_each_tensor_is_held():
    model = nn.ParameterDict({"a": torch.zeros(KB), "b": torch.zeros(2 * KB)})
    snapshot = tc.History(model=model, rng=False, mode="lazy").take()
    assert [(t.path, t.how, t.why, t.nbytes) for t in snapshot.report.tensors] == [
        ("model['state_dict']['a']", "lazy", "", 4 * KB),
        ("model['state_dict']['b']", "lazy", "", 8 * KB),
    ]
    assert snapshot.report.nbytes == 12 * KB
    assert snapshot.report.fallbacks == ()
    with torch.no_grad():
        model["a"].add_(1)
    assert [t.why for t in snapshot.report.tensors] == ["", ""]
    eager = tc.History(model=model, rng=False).take().report
    assert [(t.how, t.why) for t in eager.tensors] == [("copied", "")] * 2
    background = tc.History(model=model, rng=False, mode="background").take().wait().report
    assert [(t.how, t.why) for t in background.tensors] == [("copied", "")] * 2
    assert background.to_dict()["mode"] == "background"
