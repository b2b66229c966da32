"""`lerp_` between tensors, arrays and containers; models and optimizers stand beside `copy_`'s tests of them."""

import fractions

import numpy as np
import pytest
import torch
from in_place_checks import assert_apart, assert_refused, holds, values_of
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import torchcopy as tc
from torchcopy.copying.writing.difference_wording import described

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.mark.parametrize("weight", [0, 0.25, 1, 1.5, -0.5])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("many", [1, 3], ids=["one", "several dtypes"])
def test_it_is_tensor_lerp(dtype, weight, many):
    torch.manual_seed(0)
    dst = [torch.randn(5, dtype=dtype), *(torch.randn(5, dtype=d) for d in FLOATS[: many - 1])]
    src = [torch.randn(5, dtype=t.dtype) for t in dst]
    expected = [torch.lerp(d, s, weight) for d, s in zip(dst, src, strict=True)]
    kept = values_of(src)
    assert tc.lerp_(dst, src, weight) is dst
    assert holds(dst, expected)
    assert holds(src, kept)
    assert_apart(dst, src)


def test_a_weight_of_one_copies_and_of_zero_leaves():
    dst, src = torch.randn(1000), torch.randn(1000)
    before = dst.clone()
    tc.lerp_(dst, src, 0)
    assert torch.equal(dst, before)
    tc.lerp_(dst, src, 1)
    assert torch.equal(dst, src)
    assert_apart(dst, src)


def test_one_tensor_is_broadcast():
    dst, src = torch.zeros(2, 3), torch.tensor([1.0, 2, 3])
    tc.lerp_(dst, src, 0.5)
    assert dst.tolist() == [[0.5, 1, 1.5]] * 2
    assert_apart(dst, src)


@pytest.mark.parametrize(
    ("dst", "src", "weight"),
    [
        pytest.param(torch.zeros(2), torch.ones(2, dtype=torch.bfloat16), 0.25, id="float32 towards bfloat16"),
        pytest.param(torch.zeros(2, dtype=torch.bfloat16), torch.ones(2), 0.25, id="bfloat16 towards float32"),
        pytest.param(torch.zeros(2), torch.ones(2, dtype=torch.float64), 0.25, id="float32 towards float64"),
        pytest.param(torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64), 0.25, id="towards int"),
        pytest.param(torch.zeros(2, dtype=torch.cfloat), torch.ones(2), 0.25, id="complex towards real"),
        pytest.param(torch.zeros(2, dtype=torch.float8_e5m2), torch.ones(2), 0.25, id="float8"),
        pytest.param(torch.zeros(2, dtype=torch.cfloat).conj(), torch.ones(2) + 0j, 0.25, id="conjugate view"),
        pytest.param(torch.zeros(2, dtype=torch.cfloat).conj().imag, torch.ones(2), 0.25, id="negative view"),
        pytest.param(np.zeros(2, np.float32), np.ones(2, np.float32), 0.25, id="arrays"),
        pytest.param(np.zeros(2)[::-1], torch.ones(2), 0.25, id="reversed array"),
        pytest.param(np.zeros(2, np.longdouble), np.ones(2, np.longdouble), 0.25, id="long doubles"),
        pytest.param(
            torch.zeros(2).as_subclass(type("T", (torch.Tensor,), {})), torch.ones(2), 0.25, id="subclass"
        ),
    ],
)
def test_the_target_keeps_its_dtype(dst, src, weight):
    dtype = dst.dtype
    tc.lerp_([dst], [src], weight)
    assert dst.dtype == dtype
    assert [float(each.real) for each in dst] == [weight, weight]
    src[0] = 5
    assert float(dst[0].real) == weight, "a write to src is seen in dst"
    dst[1] = 3
    assert float(src[1].real) == 1, "a write to dst is seen in src"


def test_integers_and_booleans_are_copied():
    dst = {
        "w": torch.zeros(2),
        "steps": torch.tensor(3),
        "on": torch.tensor([True, False]),
        "ids": np.zeros(2, int),
    }
    src = {"w": torch.ones(2), "steps": torch.tensor(9), "on": torch.tensor([False, False]), "ids": np.ones(2, int)}
    tc.lerp_(dst, src, 0.5)
    assert dst["w"].tolist() == [0.5, 0.5]
    assert (int(dst["steps"]), dst["on"].tolist(), dst["ids"].tolist()) == (9, [False, False], [1, 1])
    assert_apart(dst, src)


def test_values_that_are_no_tensors_are_passed_over():
    dst = {"w": torch.zeros(1), "name": "average", "n": 1, "only here": None, "set": {1}, "object": object()}
    src = {"w": torch.ones(1), "name": "model", "n": 2, "set": {2}, "object": object(), "only there": 3}
    others = {key: dst[key] for key in dst if key != "w"}
    tc.lerp_(dst, src, 0.5)
    assert dst["w"].tolist() == [0.5]
    assert {key: dst[key] for key in dst if key != "w"} == others
    assert_apart(dst, src)


# --- memory --------------------------------------------------------------------------------------------------


def test_two_move_towards_each_other():
    a, b = torch.zeros(2), torch.ones(2)
    tc.lerp_([a, b], [b, a], 0.25)
    assert (a.tolist(), b.tolist()) == ([0.25, 0.25], [0.75, 0.75])
    assert_apart(a, b)


def test_no_element_moves_twice():
    base, ones = torch.zeros(6), torch.ones(6)
    tc.lerp_([base, base], [ones, ones], 0.5)
    assert base.tolist() == [0.5] * 6
    base.zero_()
    tc.lerp_([base[:4], base[2:]], [ones[:4], ones[2:]], 0.5)
    assert base.tolist() == [0.5] * 6
    assert_apart(base, ones)


def test_a_conjugate_and_a_negative_view_among_others():
    """PyTorch refuses a whole list for one of them: the others must not have moved before."""
    conjugate, negative = torch.zeros(2, dtype=torch.cfloat).conj(), torch.zeros(2, dtype=torch.cfloat).conj().imag
    for odd in (conjugate, negative):
        dst, src = (
            [torch.zeros(2), odd, torch.zeros(2)],
            [torch.ones(2), torch.ones(2, dtype=odd.dtype), torch.ones(2)],
        )
        tc.lerp_(dst, src, 0.5)
        assert holds(dst, [torch.full((2,), 0.5)] * 3)
        tc.copy_(dst, src)
        assert holds(dst, src)
        assert_apart(dst, src)


def test_within_one_memory():
    base = torch.arange(4.0)
    tc.lerp_(base[1:], base[:-1], 0.5)
    assert base.tolist() == [0, 0.5, 1.5, 2.5]
    tc.lerp_(base, base, 0.5)
    assert base.tolist() == [0, 0.5, 1.5, 2.5]


def test_forks():
    source = torch.zeros(3)
    fork = tc.fork(source)
    tc.lerp_([source, fork], [torch.ones(3), torch.full((3,), 2.0)], 0.5)
    assert (source.tolist(), fork.tolist()) == ([0.5] * 3, [1.0] * 3)
    again = tc.fork(source)
    tc.lerp_(source, torch.ones(3), 0.5)
    assert (source.tolist(), again.tolist()) == ([0.75] * 3, [0.5] * 3)
    assert_apart(source, [fork, again])


def test_no_graph_is_recorded():
    dst, src = torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)
    tc.lerp_([dst], [src * 2], 0.5)
    assert dst.is_leaf
    assert dst.grad_fn is None
    assert dst.tolist() == [1, 1]
    assert (dst._version, src._version) == (1, 0)
    assert_apart(dst, src)


# --- averages of weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_buffers", [False, True], ids=["parameters", "buffers too"])
def test_it_agrees_with_averaged_model(use_buffers):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=use_buffers)
    theirs.update_parameters(model)  # the first one copies
    ours = tc.copy(model)
    for _ in range(4):
        model(torch.randn(8, 3))
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p))
        theirs.update_parameters(model)
        tc.lerp_(ours, model, 1 - 0.9)
    for mine, other in zip(ours.parameters(), theirs.module.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    if use_buffers:
        torch.testing.assert_close(ours[1].running_mean, theirs.module[1].running_mean)
        assert int(ours[1].num_batches_tracked) == 4
    assert_apart(ours, model)


# --- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weight",
    [
        None, "0.5", float("nan"), float("inf"), -float("inf"), True, 1j, [0.5], 10**400, object, torch.ones(2),
        torch.tensor(True), torch.tensor(1j), torch.zeros(1, device="meta"), torch.tensor(float("nan")),
        np.ones(2), np.array(True), np.array("a"), torch.zeros(1, dtype=torch.uint8).view(torch.int4),
    ],
    ids=lambda weight: described(weight)[:20],
)  # fmt: skip
def test_weights_that_are_none(weight):
    message = assert_refused(tc.lerp_, torch.zeros(2), torch.ones(2), weight, match="^weight is .*: expected")
    assert "\n" not in message


@pytest.mark.parametrize(
    "weight",
    [
        0.25, np.float32(0.25), np.array(0.25), np.array([0.25], np.float16), fractions.Fraction(1, 4),
        torch.tensor(0.25), torch.full((1, 1), 0.25),
    ],
    ids=lambda weight: type(weight).__name__,
)  # fmt: skip
def test_weights_of_every_kind(weight):
    dst, src = torch.zeros(2), torch.ones(2)
    tc.lerp_(dst, src, weight)
    assert dst.tolist() == [0.25, 0.25]
    assert_apart(dst, src)


@pytest.mark.parametrize(
    ("dst", "src", "match"),
    [
        pytest.param(torch.zeros(2), torch.ones(3), "both have to be of one shape", id="shape"),
        pytest.param(torch.zeros(2, dtype=torch.int64), torch.ones(2), "int64 cannot lie between", id="int"),
        pytest.param(torch.zeros(2, dtype=torch.bool), torch.ones(2), "bool cannot lie between", id="bool"),
        pytest.param(torch.zeros(2), torch.ones(2, dtype=torch.cfloat), "imaginary part", id="complex"),
        pytest.param(torch.zeros(1).expand(2), torch.ones(2), r"contiguous\(\)", id="expanded"),
        pytest.param(torch.zeros(2), torch.ones(2, device="meta"), "meta tensor holds no values", id="meta"),
        pytest.param(torch.zeros(2, 2), torch.eye(2).to_sparse(), "PyTorch does not write", id="sparse source"),
        pytest.param([torch.zeros(2)], [torch.ones(2)] * 2, "of one length", id="length"),
        pytest.param({"a": torch.zeros(2)}, {"b": torch.ones(2)}, "differ in 3 places", id="keys"),
        pytest.param(torch.zeros(2), None, r"expected float32\[2\] cpu, found None", id="none"),
        pytest.param(None, torch.zeros(2), r"expected None, found float32\[2\] cpu", id="for none"),
        pytest.param(nn.Linear(2, 2), nn.Linear(2, 2, bias=False), r"dst\[1\]\.bias", id="module"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(dst, src, match):
    dst, src = (
        [torch.zeros(4), dst, torch.zeros(4)],
        [torch.ones(4), src, torch.ones(5 if "3 places" in match else 4)],
    )
    with pytest.raises(tc.InputError, match=match) as caught:
        tc.lerp_(dst, src, 0.5)
    assert str(caught.value).startswith("`lerp_` wrote nothing")
    for t in (dst[0], dst[2], src[0], src[2]):
        assert t.unique().numel() == 1
        assert t._version == 0
    assert not dst[0].any()
    assert not dst[2].any()
