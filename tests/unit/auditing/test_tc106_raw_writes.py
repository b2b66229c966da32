"""Writes that PyTorch does not see: what they do to gradients, and to what can be said of copies."""

import numpy as np
import pytest
import torch

from torchcopy.auditing.session import Audit

pytestmark = pytest.mark.usefixtures("one_thread")


def weights():
    return torch.arange(1.0, 9.0, requires_grad=True)


def write_at_once():
    saved = weights().exp()
    saved.detach().numpy()[:] = 0
    saved.sum().backward()


def write_by_name():
    w = weights()
    saved = w.exp()
    array = saved.detach().numpy()
    array *= 0.5
    saved.sum().backward()


def write_to_the_batch():
    batch = np.arange(8, dtype=np.float32)
    loss = (torch.from_numpy(batch) * weights()).sum()
    batch[:] = -1
    loss.backward()


def write_through_dlpack():
    saved = weights().exp()
    array = np.from_dlpack(saved.detach())
    array[2] = 0
    saved.sum().backward()


@pytest.mark.parametrize("program", [write_at_once, write_by_name, write_to_the_batch, write_through_dlpack])
def test_a_saved_value_that_numpy_overwrites(program):
    with Audit() as audit:
        program()
    findings = [f for f in audit.report.hazards if f.code == "TC102"]
    assert len(findings) == 1
    lines = [place.line.text.strip() for place in findings[0].places]
    assert len(lines) == 3
    assert "exp()" in lines[0] or "from_numpy" in lines[0]
    assert "backward()" in lines[2]


@pytest.mark.parametrize(
    ("program", "line"),
    [(write_at_once, "numpy()[:] = 0"), (write_by_name, "array *= 0.5"), (write_to_the_batch, "batch[:] = -1")],
)
def test_the_line_that_writes_is_named_where_there_is_but_one(program, line):
    with Audit() as audit:
        program()
    [finding] = [f for f in audit.report.hazards if f.code == "TC102"]
    assert line in finding.places[1].line.text


def write_before_the_save():
    w = weights()
    w.detach().numpy()[:] = 2
    w.exp().sum().backward()


def write_to_a_copy():
    saved = weights().exp()
    saved.detach().numpy().copy()[:] = 0
    saved.sum().backward()


def write_after_the_backward():
    saved = weights().exp()
    array = saved.detach().numpy()
    saved.sum().backward()
    array[:] = 0


def write_what_was_not_saved():
    added = weights() + 1
    added.detach().numpy()[:] = 0
    added.sum().backward()


def write_the_batch_between_iterations():
    batch = np.zeros(8, dtype=np.float32)
    tensor, w = torch.from_numpy(batch), weights()
    for k in range(4):
        batch[:] = k
        (tensor * w).sum().backward()


@pytest.mark.parametrize(
    "program",
    [
        write_before_the_save,
        write_to_a_copy,
        write_after_the_backward,
        write_what_was_not_saved,
        write_the_batch_between_iterations,
    ],
)
def test_a_write_that_spoils_no_gradient(program):
    with Audit() as audit:
        program()
    assert audit.report.hazards == ()


def statuses(audit):
    """How often copies turned out to be what, at all lines that clone."""
    rows = [row for row in audit.report.copies if row.kind == "clone"]
    return {status: sum(row.counts[status] for row in rows) for status in ("needed", "redundant", "unknown")}


def no_pointer(tensor):
    return None


def array_that_dies(tensor):
    return tensor.numpy().sum()


def printed_address(tensor):
    print(tensor.data_ptr())


def array(tensor):
    return tensor.numpy()


def capsule(tensor):
    return tensor.__dlpack__()


def pointer(tensor):
    return tensor.data_ptr()


def other_tensor(tensor):
    return torch.from_dlpack(tensor)


RAW = [array, capsule, pointer, other_tensor]


@pytest.mark.parametrize("expose", RAW)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("side", ["source", "copy"])
def test_a_copy_that_a_raw_pointer_reaches_is_unknown(expose, when, side):
    with Audit() as audit:
        source = torch.randn(64)
        if when == "before" and side == "source":
            kept = expose(source)
        copied = source.clone()
        if when == "after" or side == "copy":
            kept = expose(source if side == "source" else copied)
        total = copied.sum() + source.sum()
        del copied, source
    assert statuses(audit) == {"needed": 0, "redundant": 0, "unknown": 1}
    assert torch.isfinite(total)
    del kept


@pytest.mark.parametrize("expose", [no_pointer, array_that_dies, printed_address])
def test_a_copy_that_no_raw_pointer_reaches_is_redundant(expose, capsys):
    with Audit() as audit:
        source = torch.randn(64)
        expose(source)
        copied = source.clone()
        total = copied.sum() + source.sum()
        del copied, source
    assert statuses(audit) == {"needed": 0, "redundant": 1, "unknown": 0}
    assert torch.isfinite(total)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_a_buffer_of_python_is_a_raw_pointer_and_bytes_are_none():
    for buffer, unknown in ((bytearray(64), 1), (bytes(64), 0)):
        with Audit() as audit:
            source = torch.frombuffer(buffer, dtype=torch.float32)
            copied = source.clone()
            assert copied.sum() == source.sum() == 0
            del copied, source
        assert statuses(audit) == {"needed": 0, "redundant": 1 - unknown, "unknown": unknown}


def test_a_subclass_does_not_see_that_it_is_asked():
    seen = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, types, args, kwargs or {})

    def program():
        seen.clear()
        t = torch.ones(4).as_subclass(Logged)
        t.numpy()[0] = 2
        assert t.data_ptr()
        t.__dlpack__()
        return t.sum().item(), list(seen)

    plain = program()
    with Audit():
        audited = program()
    assert audited == plain
