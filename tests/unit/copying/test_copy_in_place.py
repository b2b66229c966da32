"""`copy_` between tensors, arrays and containers of them."""

import collections
import dataclasses

import numpy as np
import pytest
import torch
from in_place_checks import assert_apart, assert_copied, assert_refused
from torch import nn

import torchcopy as tc
from case_names import without_address


def numbers(*shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel()) + 1).view(shape).to(dtype)


AROUND = {"bare": lambda t: t, "in a list": lambda t: [t], "nested": lambda t: {"deep": ({"t": t},)}}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize(
    ("dst", "src"),
    [
        pytest.param(lambda: torch.zeros(2, 3), lambda: numbers(2, 3), id="same dtype"),
        pytest.param(lambda: torch.zeros(3, dtype=torch.bfloat16), lambda: numbers(3), id="bfloat16 from float32"),
        pytest.param(lambda: torch.zeros(3), lambda: numbers(3, dtype=torch.float64), id="float32 from float64"),
        pytest.param(lambda: torch.zeros(3), lambda: numbers(3, dtype=torch.int64), id="float from int"),
        pytest.param(lambda: torch.zeros(3, dtype=torch.int32), lambda: numbers(3), id="int from float"),
        pytest.param(
            lambda: torch.zeros(3, dtype=torch.bool), lambda: torch.tensor([True, False, 1]).bool(), id="bool"
        ),
        pytest.param(lambda: torch.zeros(3, dtype=torch.complex64), lambda: numbers(3), id="complex from real"),
        pytest.param(lambda: torch.zeros(3, dtype=torch.float8_e4m3fn), lambda: numbers(3), id="float8"),
        pytest.param(lambda: torch.zeros(3, 2).t(), lambda: numbers(2, 3), id="transposed target"),
        pytest.param(lambda: torch.zeros(2, 3), lambda: numbers(3, 2).t(), id="transposed source"),
        pytest.param(lambda: torch.zeros(9)[::3], lambda: numbers(9)[1::3], id="with steps"),
        pytest.param(
            lambda: torch.zeros(1, 2, 3, 3).contiguous(memory_format=torch.channels_last),
            lambda: numbers(1, 2, 3, 3),
            id="channels_last",
        ),
        pytest.param(lambda: torch.zeros(()), lambda: torch.tensor(3.0), id="0-dim"),
        pytest.param(lambda: torch.zeros(0, 3), lambda: torch.ones(0, 3), id="empty"),
        pytest.param(
            lambda: torch.zeros(3, requires_grad=True),
            lambda: nn.Parameter(numbers(3)),
            id="leaves",
        ),
        pytest.param(lambda: np.zeros(3, np.float32), lambda: numbers(3).numpy(), id="arrays"),
        pytest.param(lambda: np.zeros(3), lambda: numbers(3), id="array from tensor"),
        pytest.param(lambda: torch.zeros(3), lambda: numbers(3).numpy(), id="tensor from array"),
        pytest.param(lambda: np.zeros(3)[::-1], lambda: np.arange(3.0), id="reversed array"),
        pytest.param(
            lambda: np.zeros(3, np.longdouble), lambda: np.arange(3, dtype=np.longdouble), id="long doubles"
        ),
    ],
)
def test_values_arrive_and_the_sides_stay_apart(dst, src, around):
    assert_copied(around(dst()), around(src()))


@pytest.mark.parametrize(
    ("dst", "src"),
    [
        pytest.param(np.zeros(2, ">f4"), np.array([1, 2], ">f4"), id="big-endian"),
        pytest.param(np.zeros(3, ">i4"), torch.arange(3), id="big-endian from tensor"),
        pytest.param(np.zeros(3)[::-1], torch.arange(3.0), id="reversed from tensor"),
        pytest.param(np.zeros(3)[::-1], torch.arange(3.0, requires_grad=True), id="reversed from a leaf"),
        pytest.param(torch.zeros(3), np.arange(3.0)[::-1], id="tensor from reversed"),
        pytest.param(torch.zeros(3), np.arange(3, dtype=">f4"), id="tensor from big-endian"),
        pytest.param(np.array(["a", "b"]), np.array(["c", "d"]), id="strings"),
        pytest.param(np.zeros(2, "f4,i4"), np.ones(2, "f4,i4"), id="structures"),
        pytest.param(np.array(["2020-01-01"], "M8[D]"), np.array(["2021-02-03"], "M8[D]"), id="dates"),
    ],
)
def test_arrays_that_pytorch_cannot_view(dst, src):
    expected = [each.item() for each in src]
    tc.copy_([dst], [src])
    assert [each.item() for each in dst] == expected
    with torch.no_grad():
        src[0] = src[-1].item()
    assert [each.item() for each in dst] == expected, "a write to src is seen in dst"
    before = [each.item() for each in src]
    dst[-1] = dst[0].item()
    assert [each.item() for each in src] == before, "a write to dst is seen in src"


@pytest.mark.parametrize(
    ("dst", "src", "match"),
    [
        pytest.param(np.zeros(2, ">i4"), torch.ones(2), "does not cast float32 to >i4", id="big-endian int"),
        pytest.param(np.zeros(2, ">f4"), torch.ones(2, dtype=torch.bfloat16), "has no such tensor", id="bf16"),
        pytest.param(torch.zeros(2), np.ones(2, np.longdouble), "PyTorch has no such dtype", id="long double"),
        pytest.param(np.array(["a", "b"]), torch.ones(2), "takes no tensor", id="text"),
        pytest.param(np.ma.array([1, 2], mask=[0, 1]), np.array([1, 2]), "a masked array is two", id="masked"),
    ],
)
def test_arrays_that_cannot_be_written(dst, src, match):
    good = torch.zeros(2)
    before = [*dst]
    with pytest.raises(tc.InputError, match=match) as caught:
        tc.copy_([good, dst], [torch.ones(2), src])
    assert "\n" not in str(caught.value)
    assert [*dst] == before
    assert not good.any()


def test_one_tensor_is_broadcast_as_by_tensor_copy():
    dst, src = torch.zeros(2, 3), numbers(3)
    assert tc.copy_(dst, src) is dst
    assert torch.equal(dst, numbers(3).expand(2, 3))
    src.zero_()
    assert torch.equal(dst, numbers(3).expand(2, 3))
    dst.fill_(7)
    assert not src.any()
    tc.copy_(dst, numbers(2, 1).expand(2, 3))
    assert torch.equal(dst, torch.tensor([[1.0, 1, 1], [2, 2, 2]]))


@pytest.mark.parametrize(
    ("dst", "src"),
    [
        pytest.param(torch.zeros(2, 3), numbers(2), id="not broadcastable"),
        pytest.param(torch.zeros(3), numbers(2, 3), id="a source of more dimensions"),
        pytest.param([torch.zeros(2, 3)], [numbers(3)], id="in a container nothing is broadcast"),
        pytest.param(np.zeros((2, 3)), np.arange(3.0), id="nor is an array"),
    ],
)
def test_other_shapes_are_refused(dst, src):
    assert_refused(tc.copy_, dst, src, match=r"expected float.*\[.*found float.*both have to be of one shape")


# --- containers ----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Batch:
    x: object
    step: int = 0


Pair = collections.namedtuple("Pair", "left right")  # as users still write them


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda t: {"a": t(0), 1: [t(1), (t(2), t(3))]}, id="dict, list, tuple"),
        pytest.param(lambda t: Batch(Pair(t(0), {"n": t(1)})).x, id="namedtuple"),
        pytest.param(lambda t: collections.OrderedDict(a=t(0), b=t(1)), id="OrderedDict"),
        pytest.param(lambda t: collections.defaultdict(list, a=t(0), b=[t(1)]), id="defaultdict"),
        pytest.param(lambda t: {"model": nn.ParameterList([t(0), t(1)]), "more": [t(2)]}, id="module inside"),
        pytest.param(lambda t: [t(0), t(1).numpy(), None, "text", 3.5], id="with values that are no tensors"),
    ],
)
def test_containers(build):
    assert_copied(build(lambda k: torch.zeros(2, k + 1)), build(lambda k: numbers(2, k + 1)))


def test_dataclasses_and_deques():
    dst, src = Batch(torch.zeros(3)), Batch(numbers(3), step=4)
    line, other = collections.deque([torch.zeros(2), 1]), collections.deque([numbers(2), 2])
    assert tc.copy_(dst, src) is dst
    assert tc.copy_(line, other) is line
    assert torch.equal(dst.x, numbers(3))
    assert torch.equal(line[0], numbers(2))
    assert (dst.step, line[1]) == (4, 2)
    assert_apart([dst.x, line[0]], [src.x, other[0]])


def test_dicts_go_by_key_not_by_order():
    dst, src = {"a": torch.zeros(1), "b": torch.zeros(1)}, {"b": torch.ones(1) * 2, "a": torch.ones(1)}
    tc.copy_(dst, src)
    assert [float(t) for t in dst.values()] == [1, 2]
    assert list(dst) == ["a", "b"]
    src["a"].fill_(9)
    dst["b"].fill_(8)
    assert (float(dst["a"]), float(src["b"])) == (1, 2)


def test_a_container_that_holds_itself():
    dst, src = [torch.zeros(1)], [torch.ones(1)]
    dst.append(dst)
    src.append(src)
    tc.copy_(dst, src)
    assert dst[1] is dst
    assert float(dst[0]) == 1
    src[0].fill_(2)
    assert float(dst[0]) == 1


def test_an_empty_container_and_one_without_tensors():
    assert tc.copy_([], []) == []
    assert tc.copy_({"a": 1}, {"a": 2}) == {"a": 2}


def test_values_are_assigned_where_they_can_be():
    dst = {"epoch": 1, "name": "a", "best": None, "t": torch.zeros(1), "history": [1, 2]}
    src = {"epoch": 2, "name": "b", "best": 0.5, "t": torch.ones(1), "history": [3, 4]}
    history = dst["history"]
    tc.copy_(dst, src)
    assert dst == src | {"t": dst["t"]}
    assert dst["history"] is history
    src["history"].append(5)
    src["epoch"] = 9
    assert (dst["history"], dst["epoch"]) == ([3, 4], 2)
    dst["history"].clear()
    assert src["history"] == [3, 4, 5]


# --- refused, and nothing written ----------------------------------------------------------------------------


def _read_only(array):
    array.setflags(write=False)
    return array


def _without_memory(t):
    t.untyped_storage().resize_(0)
    return t


@pytest.mark.parametrize(
    ("bad_dst", "bad_src", "match"),
    [
        pytest.param(torch.zeros(2), torch.ones(3), r"dst\['bad'\]: .*float32\[2\] cpu.*float32\[3\]", id="shape"),
        pytest.param(torch.zeros(2), torch.ones(2, dtype=torch.complex64), r"src\.real", id="complex to real"),
        pytest.param(torch.zeros(1).expand(2), torch.ones(2), r"contiguous\(\)", id="expanded target"),
        pytest.param(torch.zeros(2), torch.ones(2, device="meta"), "meta tensor holds no values", id="from meta"),
        pytest.param(torch.zeros(2, device="meta"), torch.ones(2), "meta tensor holds no values", id="to meta"),
        pytest.param(np.zeros(2, int), np.ones(2), r"NumPy does not cast float64 to int64", id="array of floats"),
        pytest.param(_read_only(np.zeros(2)), np.ones(2), "read-only", id="read-only array"),
        pytest.param(np.array([1, None]), np.array([1, 2], object), "array of objects", id="array of objects"),
        pytest.param(torch.zeros(2), None, "found None", id="None for a tensor"),
        pytest.param(None, torch.ones(2), r"expected None, found float32\[2\]", id="a tensor for None"),
        pytest.param(1.0, torch.ones(()), r"expected 1\.0, found float32\[\]", id="a tensor for a number"),
        pytest.param([1, 2], [1, 2, 3], "of one length", id="length"),
        pytest.param([1], {"a": 1}, "expected a list of 1, found a dict of 1", id="kind"),
        pytest.param((torch.zeros(1), 1), (torch.zeros(1), 2), "what holds it cannot be changed", id="tuple"),
        pytest.param(object(), object(), "leave it out", id="an object that is no tensor"),
        pytest.param({1}, {2}, "leave it out", id="a set of other members"),
        pytest.param({"x": 1}, {}, r"there is no src\['bad'\]\['x'\]", id="missing key"),
        pytest.param({}, {"x": 1}, r"there is no dst\['bad'\]\['x'\]", id="surplus key"),
        pytest.param(nn.Linear(2, 2), nn.Linear(3, 2), r"dst\['bad'\]\.weight: ", id="module"),
        pytest.param(nn.LazyLinear(2), nn.Linear(3, 2), "run the lazy module once first", id="uninitialised"),
        pytest.param(_without_memory(torch.zeros(2)), torch.ones(2), "give it its memory back", id="freed target"),
        pytest.param(torch.zeros(2), _without_memory(torch.ones(2)), "give it its memory back", id="freed source"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(bad_dst, bad_src, match):
    """Good ones stand before the bad one and behind it."""
    dst = {"first": torch.zeros(4), "number": 1, "bad": bad_dst, "last": torch.zeros(2, 2)}
    src = {"first": torch.ones(4), "number": 2, "bad": bad_src, "last": torch.ones(2, 2)}
    message = _refused_around(dst, src, match)
    assert message.startswith("`copy_` wrote nothing")
    assert dst["number"] == 1


def _refused_around(dst, src, match):
    with pytest.raises(tc.InputError, match=match) as caught:
        tc.copy_(dst, src)
    for good in ("first", "last"):
        assert not dst[good].any(), "dst was written"
        assert src[good].all(), "src was written"
        assert (dst[good]._version, src[good]._version) == (0, 0)
    return str(caught.value)


def test_all_differences_are_listed_with_their_places():
    dst = [{"w": torch.zeros(k + 1), "n": k} for k in range(30)]
    src = [{"w": torch.zeros(k + 2), "n": k} for k in range(30)]
    message = assert_refused(tc.copy_, dst, src, match="differ in 30 places")
    lines = message.splitlines()
    assert lines[1] == "  dst[0]['w']: expected float32[1] cpu, found float32[2] cpu: both have to be of one shape"
    assert len(lines) == 22
    assert lines[-1] == "  … and 10 more"


def test_an_error_names_both_places_where_they_differ():
    src = nn.Linear(2, 3)
    message = assert_refused(tc.copy_, {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)}, src, match="bias")
    assert "dst['bias']: expected float32[2] cpu, found float32[3] cpu at src.bias" in message


@pytest.mark.parametrize(
    "bad",
    [None, 3, "x", object(), {1, 2}, torch.Size([1]), iter([torch.zeros(1)]), len, nn.Linear],
    ids=without_address,
)
def test_what_cannot_be_walked_is_refused(bad):
    t = torch.zeros(1)
    with pytest.raises(tc.InputError, match=r"^dst is .*: expected a tensor, a NumPy array, or") as caught:
        tc.copy_(bad, t)
    assert "\n" not in str(caught.value)
    with pytest.raises(tc.InputError, match=r"^src is .*: expected a tensor, a NumPy array, or"):
        tc.copy_(t, bad)
    with pytest.raises(tc.InputError, match=r"^src is .*: expected a tensor, a NumPy array, or"):
        tc.lerp_(t, bad, 0.5)
    assert (float(t), t._version) == (0, 0)


def test_what_to_do_instead_is_said():
    with pytest.raises(tc.InputError, match=r"write `dst\.fill_\(3\)`"):
        tc.copy_(torch.zeros(1), 3)
    with pytest.raises(tc.InputError, match="pass the model itself, or a list"):
        tc.copy_(nn.Linear(1, 1).parameters(), nn.Linear(1, 1).parameters())


class _Refusing(dict):
    def __setitem__(self, key, value):
        raise ValueError("no")


def test_where_a_container_refuses_a_value_all_are_put_back():
    dst = {"t": torch.zeros(2), "n": 1, "inner": _Refusing(m=1)}
    with pytest.raises(ValueError, match="no"):
        tc.copy_(dst, {"t": torch.ones(2), "n": 2, "inner": {"m": 2}})
    assert (dst["n"], dst["inner"]["m"], float(dst["t"].sum()), dst["t"]._version) == (1, 1, 0, 0)


def test_non_blocking_is_checked_before_anything_is_written():
    dst = [torch.zeros(2), 1]
    with pytest.raises(tc.InputError, match="non_blocking is 'yes': expected True or False"):
        tc.copy_(dst, [torch.ones(2), 2], non_blocking="yes")
    assert dst[0].tolist() == [0, 0]
    assert dst[1] == 1
