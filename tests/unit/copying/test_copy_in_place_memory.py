"""`copy_` where tensors share memory, are copy-on-write, have a graph, or are no ordinary tensors."""

import numpy as np
import pytest
import torch
from in_place_checks import assert_apart, assert_copied, assert_refused
from torch import nn

import torchcopy as tc
from torchcopy import _torch_private


def numbers(*shape):
    return (torch.arange(torch.Size(shape).numel()) + 1.0).view(shape)


# --- shared memory -------------------------------------------------------------------------------------------


def test_swap():
    a, b = torch.zeros(3), torch.ones(3)
    tc.copy_([a, b], [b, a])
    assert (a.tolist(), b.tolist()) == ([1, 1, 1], [0, 0, 0])
    assert_apart(a, b)


def test_rotation_in_a_model():
    model = nn.ParameterList([nn.Parameter(torch.full((2,), float(k))) for k in range(3)])
    a, b, c = model
    tc.copy_(model, nn.ParameterList([b, c, a]))
    assert [p.tolist()[0] for p in model] == [1, 2, 0]
    assert model[0] is a
    assert_apart([a, b], [c])


@pytest.mark.parametrize("make", [torch.arange, np.arange], ids=["tensor", "array"])
@pytest.mark.parametrize("around", [lambda x: x, lambda x: [x]], ids=["bare", "in a list"])
def test_shifted_within_one_memory(make, around):
    x = make(6.0)
    tc.copy_(around(x[1:]), around(x[:-1]))
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x = make(6.0)
    tc.copy_(around(x[:-1]), around(x[1:]))
    assert x.tolist() == [1, 2, 3, 4, 5, 5]


def test_two_tensors_on_one_array():
    array = np.arange(6.0)
    tc.copy_([torch.from_numpy(array)[1:]], [torch.from_numpy(array)[:-1]])
    assert array.tolist() == [0, 0, 1, 2, 3, 4]
    array = np.arange(4.0)
    tc.copy_([torch.from_numpy(array), array[::-1]], [torch.zeros(4), torch.arange(4.0)])
    assert array.tolist() == [3, 2, 1, 0], "the last to be written counts"


def test_a_square_and_its_transpose():
    t = numbers(3, 3)
    expected = t.t().clone()
    tc.copy_([t], [t.t()])
    assert torch.equal(t, expected)


def test_a_tensor_onto_itself_is_not_written():
    t = numbers(3)
    assert tc.copy_(t, t) is t
    assert tc.copy_([t, t[:2]], [t, t[:2]])[0] is t
    assert (t.tolist(), t._version) == ([1, 2, 3], 0)


def test_a_tied_target_takes_one_source():
    one, a, b = torch.zeros(2), torch.ones(2), torch.full((2,), 2.0)
    tc.copy_([one, one], [a, a])
    tc.copy_([one, one.view(2)], [b, b.clone()])
    assert one.tolist() == [2, 2]
    message = assert_refused(tc.copy_, [one, one], [a, b], match="tie them in src too")
    assert "dst[1]: expected the values of src[0], as it is one tensor with dst[0]" in message
    nan = torch.full((2,), torch.nan)
    tc.copy_([one, one], [nan, nan.clone()])
    assert one.isnan().all()
    assert_apart(one, [a, b, nan])


def test_a_tied_source_for_two_targets():
    dst, one = [torch.zeros(2), torch.zeros(2)], torch.ones(2)
    tc.copy_(dst, [one, one])
    assert_apart(dst, one)
    assert_apart(dst[0], dst[1])


def test_internal_overlap_is_written_as_by_tensor_copy():
    dst, src = torch.zeros(4).as_strided((3, 2), (1, 1)), torch.ones(3, 2)
    tc.copy_([dst], [src])
    assert dst.eq(1).all()
    assert_apart(dst, src)


# --- copy-on-write -------------------------------------------------------------------------------------------


def lazy(*tensors):
    return [_torch_private.is_lazy(t) for t in tensors]


def test_writing_to_what_was_forked_leaves_the_fork():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    fork, other = tc.fork(model), nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    before = [t.clone() for t in fork.state_dict().values()]
    with torch.no_grad():
        other[1].running_mean.fill_(5)
    tc.copy_(model, other)
    assert all(map(torch.equal, fork.state_dict().values(), before))
    assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))
    assert_apart(model, other)
    assert_apart(model, fork)


def test_a_lazy_source_stays_lazy():
    source = numbers(4)
    fork, dst = tc.fork(source), torch.zeros(4)
    tc.copy_(dst, fork)
    assert lazy(source, fork) == [True, True]
    assert torch.equal(dst, source)
    assert_apart(dst, fork)
    assert_apart(dst, source)


def test_back_from_a_fork():
    model = nn.Linear(2, 2)
    fork = tc.fork(model)
    before = model.weight.detach().clone()
    tc.copy_(model, fork)
    assert lazy(model.weight, fork.weight) == [True, True], "they hold the same values: there is nothing to write"
    with torch.no_grad():
        model.weight.add_(1)
    tc.copy_(model, fork)
    assert torch.equal(model.weight, before)
    assert_apart(model, fork)


def test_forks_of_one_tensor_are_several_targets():
    source = torch.zeros(3)
    first, second = tc.fork(source, 2)
    tc.copy_([first, second], [torch.ones(3), torch.full((3,), 2.0)])
    assert [t.tolist()[0] for t in (source, first, second)] == [0, 1, 2]
    assert_apart(first, second)
    assert_apart(source, [first, second])


def test_a_tensor_and_its_fork_as_targets_swap_and_overlap():
    source = numbers(4)
    fork = tc.fork(source)
    tc.copy_([source[:2], fork[2:]], [fork[2:], source[:2] * 10])
    assert source.tolist() == [3, 4, 3, 4]
    assert fork.tolist() == [1, 2, 10, 20]
    assert_apart(source, fork)


def test_a_copied_model_forked_again():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    of_a, of_b = tc.fork(a), tc.fork(b)
    old_a, old_b = a.weight.detach().clone(), b.weight.detach().clone()
    tc.copy_([a, b], [of_b, of_a])
    assert torch.equal(a.weight, old_b)
    assert torch.equal(b.weight, old_a)
    assert torch.equal(of_a.weight, old_a)
    assert torch.equal(of_b.weight, old_b)
    assert_apart([a, b], [of_a, of_b])


# --- autograd ------------------------------------------------------------------------------------------------


def test_no_graph_is_recorded():
    leaf, src = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)
    view = leaf[:1]
    tc.copy_([leaf, view], [src * 2, (src * 2)[:1]])
    assert leaf.is_leaf
    assert leaf.grad_fn is None
    assert leaf.requires_grad
    assert leaf.tolist() == [2, 2]
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]
    assert src.grad is None
    assert_apart(leaf, src)


def test_a_graph_that_needs_the_old_values_raises():
    weight, x = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    loss = (weight * x).sum()
    tc.copy_(weight, torch.zeros(2))
    assert weight._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_source_in_a_graph_keeps_it():
    x = torch.ones(2, requires_grad=True)
    y, dst = x * 3, torch.zeros(2)
    tc.copy_(dst, y)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert not dst.requires_grad
    assert_apart(dst, y)


@pytest.mark.parametrize("call", [tc.copy_, lambda d, s: tc.lerp_(d, s, 1)], ids=["copy_", "lerp_"])
def test_inference_tensors_on_either_side(call):
    with torch.inference_mode():
        made = torch.zeros(2)
    call(made, torch.ones(2))
    assert made.tolist() == [1, 1]
    dst = torch.zeros(2)
    call([dst], [made])
    assert dst.tolist() == [1, 1]
    dst.fill_(4)
    with torch.inference_mode():
        assert made.tolist() == [1, 1]
        made.fill_(3)
        call(made, dst)
    assert (made.tolist(), dst.tolist()) == ([4, 4], [4, 4])


# --- no ordinary tensors -------------------------------------------------------------------------------------


class Labelled(torch.Tensor):
    """A subclass without a say of its own."""


class OfItsOwn(torch.Tensor):
    """A subclass that is asked about each function."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def quantized(scale):
    return torch.quantize_per_tensor(torch.arange(4.0) * scale, 0.1 * scale, 0, torch.quint8)


def nested(value):
    return torch.nested.nested_tensor([torch.full((2,), value), torch.full((3,), value)])


def dense(t):
    if t.is_nested:
        return torch.cat([part.flatten() for part in t.unbind()])
    return t.to_dense() if t.layout is not torch.strided else t.dequantize() if t.is_quantized else t


@pytest.mark.parametrize("around", [lambda t: t, lambda t: [t, t]], ids=["bare", "twice in a list"])
@pytest.mark.parametrize(
    ("dst", "src", "write"),
    [
        (lambda: torch.eye(3).to_sparse(), lambda: (2 * torch.eye(3)).to_sparse(), lambda t: t.zero_()),
        (lambda: torch.eye(3).to_sparse(), lambda: torch.ones(3, 3).to_sparse(), lambda t: t.zero_()),
        (
            lambda: torch.eye(3).to_sparse_csr(),
            lambda: (2 * torch.eye(3)).to_sparse_csr(),
            lambda t: t.values().zero_(),
        ),
        (lambda: quantized(1.0), lambda: quantized(2.0), lambda t: t.fill_(0)),
        (lambda: quantized(1.0), lambda: torch.arange(4.0), lambda t: t.fill_(0)),
        (lambda: nested(1.0), lambda: nested(2.0), lambda t: t.zero_()),
        (lambda: torch.zeros(2).as_subclass(Labelled), lambda: numbers(2), lambda t: t.zero_()),
        (lambda: torch.zeros(2), lambda: numbers(2).as_subclass(Labelled), lambda t: t.zero_()),
        (lambda: torch.zeros(2, dtype=torch.cfloat).conj(), lambda: numbers(2) + 1j, lambda t: t.zero_()),
        (lambda: torch.zeros(2, dtype=torch.cfloat), lambda: (numbers(2) + 1j).conj(), lambda t: t.zero_()),
        (lambda: torch.zeros(2, dtype=torch.cfloat).conj().imag, lambda: numbers(2), lambda t: t.zero_()),
        (lambda: torch.zeros(1, dtype=torch.cfloat).conj().imag, lambda: numbers(1), lambda t: t.zero_()),
    ],
    ids="sparse|sparse of more elements|csr|quantized|quantized from float|nested|subclass|from a subclass|"
    "conjugate view|from a conjugate view|negative view|one element of it".split("|"),
)
@pytest.mark.filterwarnings("ignore:.*Sparse CSR tensor support is in beta")
@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage")
@pytest.mark.filterwarnings("ignore:.*other quantized tensor creation functions")
def test_tensors_of_other_kinds(dst, src, write, around):
    dst, src = dst(), src()
    expected = dense(src).clone()
    tc.copy_(around(dst), around(src))
    assert torch.equal(dense(dst), expected)
    write(src)
    assert torch.equal(dense(dst), expected)
    tc.copy_(around(dst), around(src))
    assert not dense(dst).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda value: (torch.eye(3) * value).to_sparse(),
        lambda value: torch.full((2,), value).as_subclass(OfItsOwn),
        lambda value: torch.quantize_per_tensor(torch.full((2,), value), 0.5, 0, torch.qint8),
        lambda value: np.full(2, value, np.longdouble),
    ],
    ids="sparse|subclass|quantized|long doubles".split("|"),
)
@pytest.mark.filterwarnings("ignore:.*other quantized tensor creation functions")
def test_a_tied_target_of_another_kind_takes_one_source(make):
    def values(t):
        return (t if isinstance(t, np.ndarray) else dense(t)).tolist()

    one, src = make(0.0), [make(2.0), make(2.0)]
    tc.copy_([one, one], src)
    assert values(one) == values(make(2.0))
    with pytest.raises(tc.InputError, match="tie them in src too"):
        tc.copy_([one, one], [make(1.0), make(3.0)])
    for t in src:
        if isinstance(t, np.ndarray):
            t[...] = 1
        else:
            t.copy_(make(1.0))
    assert values(one) == values(make(2.0))
    tc.copy_(one, make(5.0))
    assert values(src[0]) == values(make(1.0))


def test_a_conjugate_leaf():
    dst = torch.zeros(2, dtype=torch.cfloat).conj().requires_grad_()
    src = [numbers(2) + 2j]
    tc.copy_([dst], src)
    assert dst.is_leaf
    assert torch.equal(dst.detach().resolve_conj(), numbers(2) + 2j)
    src[0].zero_()
    assert dst.detach()[0] == 1 + 2j


@pytest.mark.parametrize(
    ("dst", "src"),
    [
        (lambda: torch.zeros(3, 3), lambda: torch.eye(3).to_sparse()),
        (lambda: torch.eye(3).to_sparse(), lambda: torch.ones(3, 3)),
        (lambda: torch.zeros(4), lambda: quantized(1.0)),
        (lambda: nested(1.0), lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(3)])),
        (lambda: torch.zeros(3), lambda: torch.ones(3).to_mkldnn()),
    ],
    ids="dense from sparse|sparse from dense|float from quantized|nested of other sizes|from mkldnn".split("|"),
)
@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage")
@pytest.mark.filterwarnings("ignore:.*other quantized tensor creation functions")
def test_what_pytorch_refuses_is_refused_with_its_reason(dst, src):
    good, dst = torch.zeros(2), dst()
    with pytest.raises(tc.InputError, match="PyTorch does not write the one into the other") as caught:
        tc.copy_([good, dst], [torch.ones(2), src()])
    assert "\n" not in str(caught.value)
    assert "dst[1]" in str(caught.value)
    assert (good.tolist(), good._version) == ([0, 0], 0)


def test_meta_tensors_have_nothing_to_copy():
    dst = torch.empty(3, device="meta")
    assert tc.copy_([dst], [torch.empty(3, device="meta")])[0] is dst


def test_a_tensor_subclass_of_two_tensors():
    from torch.testing._internal.two_tensor import TwoTensor

    dst, src = TwoTensor(torch.zeros(2), torch.zeros(2)), TwoTensor(torch.ones(2), torch.full((2,), 2.0))
    tc.copy_({"t": dst}, {"t": src})
    assert (dst.a.tolist(), dst.b.tolist()) == ([1, 1], [2, 2])
    src.a.zero_()
    src.b.zero_()
    assert (dst.a.tolist(), dst.b.tolist()) == ([1, 1], [2, 2])
    dst.a.fill_(3)
    assert src.a.tolist() == [0, 0]


def test_many_small_tensors_and_one_of_another_shape():
    dst, src = [torch.zeros(2) for _ in range(1000)], [torch.ones(2) for _ in range(1000)]
    assert_copied(dst, src)
    dst = [torch.zeros(2) for _ in range(1000)]
    src = [torch.ones(3 if k == 999 else 2) for k in range(1000)]
    assert_refused(tc.copy_, dst, src, match=r"dst\[999\]: ")
