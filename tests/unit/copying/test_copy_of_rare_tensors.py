"""Tensors that few programs have, with options that few of them take."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import torchcopy as tc

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

MEMORIES = ("own", "lazy", "share")


def nested(layout):
    parts = [torch.ones(2, 3), torch.ones(1, 3)]
    return torch.nested.nested_tensor(parts, layout=layout, requires_grad=True)


def total(t):
    if t.is_nested:
        return t.values().sum() if t.layout == torch.jagged else t.to_padded_tensor(0.0).sum()
    return torch.sparse.sum(t) if t.layout == torch.sparse_coo else t.sum()


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: nested(torch.strided), id="nested"),
        pytest.param(lambda: nested(torch.jagged), id="jagged"),
        pytest.param(lambda: torch.eye(2).to_sparse().requires_grad_(), id="sparse"),
    ],
)
def test_gradients_flow_through_copies_that_have_no_views(make, memory):
    source = make()
    copied = tc.copy([source], graph="keep", memory=memory)[0]
    (gradient,) = torch.autograd.grad(total(copied * 2), source)
    assert float(total(gradient.detach())) == 2 * float(total(source.detach()))  # whose elements are ones
    if memory != "share":
        before = float(total(source.detach()))
        with torch.no_grad():
            copied.mul_(3)
        assert float(total(source.detach())) == before
        assert float(total(copied.detach())) == 3 * before
        with torch.no_grad():
            source.mul_(5)
        assert float(total(copied.detach())) == 3 * before


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jacrev], ids=["vmap", "jacrev"])
def test_aliases_inside_a_transform(transform):
    doubled = transform(lambda x: tc.copy([x], graph="keep", memory="share")[0] * 2)(torch.ones(2))
    assert (
        doubled.tolist() == (torch.eye(2) * 2 if transform is torch.func.jacrev else torch.full((2,), 2.0)).tolist()
    )


@pytest.mark.parametrize("among", [False, True], ids=["alone", "among others"])
def test_a_nested_tensor_is_converted(among):
    source = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    copied, *others = tc.copy([source, *[torch.ones(2)] * among], dtype=torch.float64)
    source.mul_(3)
    assert copied.dtype == torch.float64
    assert [part.tolist() for part in copied.unbind()] == [[1, 1], [1, 1, 1]]
    copied.mul_(5)
    assert [part.tolist() for part in source.unbind()] == [[3, 3], [3, 3, 3]]
    assert [t.dtype for t in others] == [torch.float64] * among


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("inside", [True, False], ids=["inside the mode", "outside"])
def test_a_module_of_fake_tensors(memory, inside):
    mode = FakeTensorMode()
    with mode:
        source = nn.Linear(2, 3)
        copied = tc.copy(source, memory=memory) if inside else None
    copied = copied or tc.copy(source, memory=memory)
    assert isinstance(copied.weight, FakeTensor)
    assert copied.weight is not source.weight
    assert copied.weight.fake_mode is mode
    assert copied.weight.requires_grad
    with mode:
        assert copied(torch.ones(4, 2)).shape == (4, 3)


@pytest.mark.parametrize("left", [0, 8], ids=["freed", "shrunk"])
@pytest.mark.parametrize("options", [{}, {"memory": "lazy"}, {"graph": "keep"}, {"dtype": torch.float64}], ids=str)
def test_a_tensor_whose_storage_was_freed_is_refused_with_its_path(left, options):
    t = torch.ones(3)
    t.untyped_storage().resize_(left)
    with pytest.raises(tc.InputError, match=r"`obj\['w'\]\[1\]` \(torch.Tensor\) has no memory"):
        tc.copy({"w": [torch.ones(2), t, torch.ones(4)[1:]]}, **options)
    view = torch.ones(8)[4:]
    view.untyped_storage().resize_(20)
    with pytest.raises(tc.InputError, match="has no memory"):
        tc.copy(view, **options)
    shared = tc.copy([t], memory="share")[0]
    assert shared.untyped_storage().nbytes() == left
    assert shared.shape == t.shape


# --- storages by themselves ------------------------------------------------------------------------------------

WITH_STORAGES = {
    "tensor first": lambda s: [s, s.untyped_storage()],
    "storage first": lambda s: [s.untyped_storage(), s],
    "between views": lambda s: [s[1:3], s.untyped_storage(), s[:2]],
    "twice and typed": lambda s: [s.untyped_storage(), s.untyped_storage(), s.storage(), s],
    "typed": lambda s: [s.storage(), s],
    "in a tuple": lambda s: [(s, s.untyped_storage())],
    "alone": lambda s: [s.untyped_storage()],
}


def _bytes_of(x):
    if isinstance(x, tuple):
        return [each for part in x for each in _bytes_of(part)]
    storage = x if isinstance(x, torch.UntypedStorage) else x.untyped() if _is_typed(x) else x.untyped_storage()
    return [torch.empty(0, dtype=torch.float32).set_(storage)]


def _is_typed(x):
    return isinstance(x, torch.TypedStorage)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("call", [tc.copy, tc.fork], ids=["copy", "fork"])
@pytest.mark.parametrize("name", WITH_STORAGES)
def test_a_storage_is_that_of_its_tensors(name, call):
    source = WITH_STORAGES[name](torch.arange(4.0))
    copied = call(source)
    assert list(map(type, copied)) == list(map(type, source))
    ones, others = ([t for x in each for t in _bytes_of(x)] for each in (source, copied))
    ones[0][1] = 7.0
    assert all(t.tolist() == [0, 7, 2, 3] for t in ones)
    assert all(t.tolist() == [0, 1, 2, 3] for t in others)
    others[-1][2] = 8.0
    assert all(t.tolist() == [0, 1, 8, 3] for t in others)
    assert all(t.tolist() == [0, 7, 2, 3] for t in ones)
    if name == "twice and typed":
        assert copied[0] is copied[1]
