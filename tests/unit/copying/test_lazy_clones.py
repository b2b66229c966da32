"""Lazy clones: every way to write one side leaves the other alone, and what cannot be lazy is refused."""

import copy
import io
import pickle
import tempfile

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchcopy import _torch_private as private
from torchcopy.copying.copy_on_write import anchors
from torchcopy.copying.copy_on_write.lazy import lazy_clones


def lazy_clone(source):
    ((clone,),) = lazy_clones([source])
    return clone


def _add(t):
    t.add_(1)


def _data_add(t):
    t.data.add_(1)


def _fused_adam(t):
    t.requires_grad_()
    t.grad = torch.ones_like(t)
    torch.optim.Adam([t], lr=1.0, fused=True).step()
    t.requires_grad_(False)


def _foreach(t):
    torch._foreach_add_([t], 1)


def _swap_data(t):
    t.data = t.data + 1


def _fill_storage(t):
    t.untyped_storage().fill_(0)


def _numpy_view(t):
    t.numpy()[...] += 1


def _out(t):
    torch.add(t, 1, out=t)


def _index(t):
    t[0] = 17


def _alias(t):
    t.detach().view(-1)[1:].mul_(3)


def _storage_item(t):
    t.untyped_storage()[3] = 7


WRITES = [
    _add,
    _data_add,
    _fused_adam,
    _foreach,
    _swap_data,
    _fill_storage,
    _numpy_view,
    _out,
    _index,
    _alias,
    _storage_item,
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("first", ["source", "clone"])
def test_a_write_to_one_side_is_not_seen_on_the_other(write, first):
    sides = {"source": torch.arange(1.0, 7.0).view(2, 3)}
    sides["clone"] = lazy_clone(sides["source"])
    assert private.storage_address(sides["source"]) == private.storage_address(sides["clone"])
    values = sides["source"].tolist()
    written, other = sides.pop(first), sides.popitem()[1]
    write(written)
    assert written.tolist() != values
    assert other.tolist() == values
    after = written.tolist()
    write(other)
    assert other.tolist() == after
    assert written.tolist() == after


GEOMETRIES = {
    "dense": lambda: torch.arange(6.0).view(2, 3),
    "a view with an offset": lambda: torch.arange(24.0).view(4, 6).t()[1:, 1:],
    "expanded": lambda: torch.arange(3.0).expand(2, 3),
    "a scalar": lambda: torch.tensor(3.0),
    "bool": lambda: torch.arange(4) > 1,
    "complex": lambda: torch.arange(4).to(torch.complex64),
    "bfloat16": lambda: torch.arange(4, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("make", GEOMETRIES.values(), ids=GEOMETRIES)
def test_a_clone_has_the_geometry_of_its_source(make):
    source = make()
    clone = lazy_clone(source)
    for fact in ("shape", "dtype", "device", "layout"):
        assert getattr(clone, fact) == getattr(source, fact)
    assert (clone.stride(), clone.storage_offset()) == (source.stride(), source.storage_offset())
    assert type(clone) is torch.Tensor
    assert torch.equal(clone, source)
    values = clone.tolist()
    source.untyped_storage().fill_(1)
    assert clone.tolist() == values
    assert source.tolist() != values
    ones = source.tolist()
    clone.untyped_storage().fill_(0)
    assert source.tolist() == ones
    assert not clone.any()


def test_the_clone_of_a_parameter_needs_no_gradient_and_moves_no_version():
    parameter = nn.Parameter(torch.arange(3.0))
    with torch.no_grad():
        parameter.add_(1)
    version = parameter._version
    clone = lazy_clone(parameter)
    assert (type(clone), clone.requires_grad, clone.grad_fn) == (torch.Tensor, False, None)
    assert parameter._version == version
    assert clone._version == 0
    clone.add_(1)
    assert parameter._version == version
    (parameter * 2).sum().backward()
    assert parameter.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        parameter.zero_()
    assert clone.tolist() == [2, 3, 4]


def test_a_graph_through_the_source_is_not_told_of_a_fork():
    weight = torch.ones(3, requires_grad=True)
    saved = weight.detach().clone().requires_grad_()
    loss = (saved * saved).sum()
    clone = lazy_clone(saved)
    clone.zero_()
    loss.backward()
    assert saved.grad.tolist() == [2, 2, 2]
    with torch.no_grad():
        saved.fill_(5)
    assert clone.tolist() == [0, 0, 0]


def test_several_clones_of_several_sources():
    sources = [torch.full((3,), float(i)) for i in range(5)]
    clones = lazy_clones(sources, 3)
    assert [[c.tolist() for c in column] for column in clones] == [[s.tolist() for s in sources]] * 3
    tensors = [*sources, *(c for column in clones for c in column)]
    assert len({private.storage_id(t) for t in tensors}) == 20
    for number, t in enumerate(tensors):
        t.fill_(100 + number)
    assert [t[0].item() for t in tensors] == [100 + number for number in range(20)]


def test_nothing_to_clone():
    assert lazy_clones([]) == [[]]
    assert lazy_clones([], 2) == [[], []]
    assert lazy_clones([torch.ones(1)], 0) == []


def test_a_fork_of_a_fork_shares_with_both():
    source = torch.arange(3.0)
    first = lazy_clone(source)
    second = lazy_clone(first)
    third = lazy_clone(source)
    assert len({private.storage_address(t) for t in (source, first, second, third)}) == 1
    for number, t in enumerate((first, source, third, second)):
        assert t.tolist() == [0, 1, 2]
        t.fill_(number)
    assert [t[0].item() for t in (first, source, third, second)] == [0, 1, 2, 3]


def test_source_and_fork_in_one_call():
    source = torch.arange(3.0)
    fork = lazy_clone(source)
    of_source, of_fork = lazy_clones([source, fork])[0]
    source.fill_(1)
    of_fork.fill_(2)
    assert (fork.tolist(), of_source.tolist()) == ([0, 1, 2], [0, 1, 2])
    fork.fill_(3)
    of_source.fill_(4)
    assert [t[0].item() for t in (source, of_fork, fork, of_source)] == [1, 2, 3, 4]


def test_views_of_one_storage_get_storages_of_their_own():
    base = torch.arange(4.0)
    first, second, again = lazy_clones([base[:2], base[2:], base[:2]])[0]
    base.fill_(9)
    assert (first.tolist(), second.tolist(), again.tolist()) == ([0, 1], [2, 3], [0, 1])
    first.fill_(7)
    assert (second.tolist(), again.tolist(), base.tolist()) == ([2, 3], [0, 1], [9] * 4)


def test_views_of_a_clone_see_its_writes_and_it_theirs():
    source = torch.arange(6.0)
    clone = lazy_clone(source)
    view = clone.view(2, 3)
    view[1].zero_()
    assert clone.tolist() == [0, 1, 2, 0, 0, 0]
    clone[0] = 8
    assert view[0, 0] == 8
    assert source.tolist() == [0, 1, 2, 3, 4, 5]
    source.zero_()
    assert clone[1] == 1


def test_a_view_of_the_source_taken_before_is_one_with_it():
    source = torch.arange(6.0)
    view = source[2:4]
    clone = lazy_clone(source)
    view.fill_(9)
    assert source.tolist() == [0, 1, 9, 9, 4, 5]
    assert clone.tolist() == [0, 1, 2, 3, 4, 5]
    clone.fill_(3)
    assert view.tolist() == [9, 9]


def test_a_clone_outlives_its_source():
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    del source
    assert clone.tolist() == [0, 1, 2]
    clone.add_(1)
    assert clone.tolist() == [1, 2, 3]


def _through_torch_save(t):
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t)), _through_torch_save, torch.clone],
    ids=["deepcopy", "pickle", "torch.save", "clone"],
)
def test_a_clone_is_copied_like_any_tensor(copied):
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    other = copied(clone)
    assert other.tolist() == [0, 1, 2]
    other.add_(1)
    source.add_(2)
    assert (clone.tolist(), source.tolist(), other.tolist()) == ([0, 1, 2], [2, 3, 4], [1, 2, 3])
    clone.add_(3)
    assert (clone.tolist(), source.tolist(), other.tolist()) == ([3, 4, 5], [2, 3, 4], [1, 2, 3])


def test_reading_keeps_both_lazy():
    source = torch.randn(4, 4)
    clone = lazy_clone(source)
    (source @ clone).sum(), source == clone, torch.equal(source, clone), source.tolist(), repr(clone)
    assert private.is_lazy(source)
    assert private.is_lazy(clone)
    clone.zero_()
    assert source.abs().sum() > 0
    source.fill_(1)
    assert clone.sum() == 0


def test_a_pointer_taken_before_writes_into_both():
    """The limit that the docstring names: nothing tells PyTorch of such a write."""
    source = torch.arange(3.0)
    array = source.numpy()
    clone = lazy_clone(source)
    array[0] = 9
    assert (source[0].item(), clone[0].item()) == (9, 9)
    source.add_(1)
    clone.add_(2)
    assert (source[0].item(), clone[0].item(), array[0]) == (10, 11, 9)


# --- what cannot be lazy ---------------------------------------------------------------------------------------


class Plain(torch.Tensor):
    """A subclass that PyTorch's own code handles."""


class Opaque(torch.Tensor):
    """A subclass that handles each operation itself."""

    @staticmethod
    def __new__(cls, inner):
        opaque = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        opaque.inner = inner
        return opaque

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("nobody should have called")


def _mapped():
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(torch.arange(3.0), file.name)
        return torch.load(file.name, mmap=True)


REFUSED = {
    "numpy": lambda: torch.from_numpy(np.arange(3.0)),
    "a buffer": lambda: torch.frombuffer(bytearray(12), dtype=torch.float32),
    "shared memory": lambda: torch.arange(3.0).share_memory_(),
    "mapped": _mapped,
    "empty": lambda: torch.empty(0),
    "no bytes left": lambda: torch.empty(3, 0),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "quantized": lambda: torch.quantize_per_tensor(torch.arange(3.0), 0.1, 0, torch.qint8),
    "oneDNN": lambda: torch.randn(3, 3).to_mkldnn(),
    "meta": lambda: torch.empty(3, device="meta"),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "fake": lambda: FakeTensorMode().from_tensor(torch.ones(3)),
    "a subclass of its own mind": lambda: Opaque(torch.ones(3)),
    "conjugated": lambda: torch.ones(3, dtype=torch.complex64).conj(),
    "negated": lambda: torch.ones(3, dtype=torch.complex64).conj().imag,
    "zeros that are not there": lambda: torch._efficientzerotensor(3),
}
NOTES = "ignore:.*(prototype|beta|deprecated|not writable).*"


@pytest.mark.filterwarnings(NOTES)
@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_a_misfit_is_refused_and_the_others_are_cloned(make):
    before, misfit, after = torch.arange(3.0), make(), torch.arange(4.0)
    (clones,) = lazy_clones([before, misfit, after])
    assert clones[1] is None
    assert lazy_clones([misfit], 2) == [[None], [None]]
    for source, clone in ((before, clones[0]), (after, clones[2])):
        assert private.is_lazy(clone)
        values = clone.tolist()
        source.add_(1)
        assert clone.tolist() == values
        clone.add_(5)
        assert source.tolist() == [v + 1 for v in values]


def test_a_plain_subclass_gives_a_plain_tensor():
    source = torch.arange(3.0).as_subclass(Plain)
    clone = lazy_clone(source)
    assert type(clone) is torch.Tensor
    source.add_(1)
    assert clone.tolist() == [0, 1, 2]
    clone.add_(5)
    assert source.tolist() == [1, 2, 3]


def test_many_misfits_among_many():
    borrowed = [torch.from_numpy(np.full(2, i)) for i in range(40)]
    owned = [torch.full((2,), i) for i in range(40)]
    sources = [t for pair in zip(borrowed, owned, strict=True) for t in pair]
    (clones,) = lazy_clones(sources)
    assert clones[::2] == [None] * 40
    assert [c.tolist() for c in clones[1::2]] == [[i, i] for i in range(40)]
    for t in owned:
        t.fill_(-1)
    assert [c.tolist() for c in clones[1::2]] == [[i, i] for i in range(40)]
    for c in clones[1::2]:
        c.fill_(-2)
    assert all(t.tolist() == [-1, -1] for t in owned)


def test_nothing_is_lazy_where_torch_fails_the_self_check(monkeypatch):
    monkeypatch.setattr(private, "copy_on_write_works", lambda: False)
    source = torch.arange(3.0)
    assert lazy_clones([source, source], 2) == [[None, None], [None, None]]
    assert not private.is_lazy(source)


# --- modes of the caller ---------------------------------------------------------------------------------------


class Seen(TorchDispatchMode):
    """Notes what it is asked to do."""

    def __init__(self):
        super().__init__()
        self.functions = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.functions.append(func)
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_nothing():
    source = torch.arange(3.0)
    with Seen() as seen:
        clone = lazy_clone(source)
        anchors.settle()
        anchors.report()
    assert seen.functions == []
    source.add_(1)
    clone.add_(5)
    assert (source.tolist(), clone.tolist()) == ([1, 2, 3], [5, 6, 7])


@pytest.mark.parametrize(
    "mode",
    [torch.no_grad, torch.enable_grad, torch.inference_mode, lambda: torch.device("meta"), FakeTensorMode],
    ids=["no_grad", "enable_grad", "inference_mode", "a default device", "fake tensors"],
)
def test_modes_make_no_difference(mode):
    source = torch.arange(3.0, requires_grad=True)
    with mode():
        clone = lazy_clone(source)
        anchors.settle()
    assert private.is_lazy(source)
    with torch.no_grad():
        source.add_(1)
    assert (clone.tolist(), clone.requires_grad) == ([0, 1, 2], False)
    with torch.inference_mode():
        clone.add_(5)
    assert source.tolist() == [1, 2, 3]


def test_an_inference_tensor_can_be_the_source():
    with torch.inference_mode():
        source = torch.arange(3.0)
    clone = lazy_clone(source)
    clone.add_(1)
    assert (clone.tolist(), source.tolist()) == ([1, 2, 3], [0, 1, 2])
    with torch.inference_mode():
        source.add_(5)
    assert clone.tolist() == [1, 2, 3]


def test_inside_a_transform_what_it_wraps_is_refused():
    outer, seen = torch.arange(3.0), []

    def body(x):
        seen.extend(lazy_clones([x, outer])[0])
        return x * 2

    torch.vmap(body)(torch.ones(2, 3))
    torch.func.grad(lambda x: body(x).sum())(torch.ones(3))
    assert seen[0] is None
    assert seen[2] is None
    for clone in (seen[1], seen[3]):
        if clone is not None:
            assert clone.tolist() == [0, 1, 2]
    outer.add_(1)
    assert all(clone is None or clone.tolist() == [0, 1, 2] for clone in seen)
