"""`compare`: every figure against a plain float64 reference, over dtypes, layouts, shared memory and odd values."""

import copy
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import torchcopy as tc
from torchcopy.history.comparing import comparison, difference_sums, pieces

inf, nan = math.inf, math.nan
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn]
COMPLEX = [torch.complex64, torch.complex128]
INTEGERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32]


def reference(a, b):
    """The figures of finite tensors, in NumPy and float64."""
    x, y = (_array(t) for t in (a, b))
    d = y - x
    l2, norms = math.sqrt((abs(d) ** 2).sum()), [math.sqrt((abs(z) ** 2).sum()) for z in (x, y)]
    return {
        "numel": d.size,
        "l2": l2,
        "max_abs": abs(d).max(initial=0),
        "relative": l2 / norms[0] if norms[0] else (inf if l2 else 0.0),
        "cosine": (x * y.conj()).sum().real / (norms[0] * norms[1]) if norms[0] * norms[1] else None,
        "changed": float((x != y).mean()) if d.size else 0.0,
    }


def _array(t):
    return t.detach().to(torch.complex128 if t.is_complex() else torch.float64).cpu().resolve_conj().numpy()


def figures(moved):
    return {name: getattr(moved, name) for name in ("numel", "l2", "max_abs", "relative", "cosine", "changed")}


def assert_is(moved, a, b):
    expected = reference(a, b)
    if not expected["changed"]:
        expected["cosine"] = 1.0
    for name, value in figures(moved).items():
        if expected[name] is None:
            assert value is None, name
        else:
            assert value == pytest.approx(expected[name], rel=1e-9, abs=1e-12), name


def only(a, b):
    return tc.compare({"t": a}, {"t": b}).tensor("t")


def filled(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype in INTEGERS:
        return torch.randint(0, 2 if dtype is torch.bool else 100, shape, generator=generator).to(dtype)
    if dtype in COMPLEX:
        return torch.randn(shape, dtype=dtype, generator=generator)
    return torch.randn(shape, generator=generator).to(dtype)


# --- one tensor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, *INTEGERS], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (0,), (2, 0)], ids=str)
def test_every_dtype_agrees_with_numpy(dtype, shape):
    a, b = filled(shape, dtype, 0), filled(shape, dtype, 1)
    moved = only(a, b)
    assert_is(moved, a, b)
    assert (moved.name, moved.shape, moved.dtype) == ("t", shape, str(dtype).removeprefix("torch."))
    assert_is(only(a, a.clone()), a, a)


@pytest.mark.parametrize("size", [1000, 1024, 1, 300])
@pytest.mark.parametrize(
    "layout", ["contiguous", "transposed", "strided", "one of them", "channels last", "expanded"]
)
def test_pieces_add_up_whatever_the_strides(monkeypatch, size, layout):
    monkeypatch.setattr(pieces, "_CPU_PIECE", size)
    a, b = filled((4, 8, 16, 16), torch.float32, 0), filled((4, 8, 16, 16), torch.float32, 1)
    if layout == "transposed":
        a, b = a.transpose(0, 3), b.transpose(0, 3)
    elif layout == "strided":
        a, b = a[..., ::2], b[..., ::2]
    elif layout == "one of them":
        a = a.to(memory_format=torch.channels_last)
    elif layout == "channels last":
        a, b = (t.to(memory_format=torch.channels_last) for t in (a, b))
    elif layout == "expanded":
        a = a[:1].expand(4, 8, 16, 16)
    moved, expected = only(a, b), reference(a, b)
    for name, value in figures(moved).items():
        assert value == pytest.approx(expected[name], rel=1e-9), name


def test_no_piece_is_larger_than_its_bound(monkeypatch):
    """What is widened to float64 at one time is a piece, however large and strided a tensor is."""
    seen = []
    inner = difference_sums._sums_of
    monkeypatch.setattr(difference_sums, "_sums_of", lambda a, b: seen.append(a.numel()) or inner(a, b))
    monkeypatch.setattr(pieces, "_CPU_PIECE", 100)
    for a in (
        torch.ones(10_000),
        torch.ones(100, 100).t(),
        torch.ones(1, 10_000, 2)[..., 0],
        torch.ones(7, 333)[:, ::3],
    ):
        seen.clear()
        only(a, a + 1)
        assert max(seen) <= 100
        assert sum(seen) == a.numel()


@pytest.mark.parametrize(
    ("a", "b", "l2", "cosine", "changed"),
    [
        pytest.param([nan, 3.0], [nan, 4.0], 1.0, 1.0, 0.5, id="NaN equals NaN"),
        pytest.param([inf, -inf, 3.0], [inf, -inf, 3.0], 0.0, 1.0, 0.0, id="infinities stay"),
        pytest.param([inf, 3.0], [inf, 5.0], 2.0, 1.0, 0.5, id="left out of the norms"),
        pytest.param([1.0, 2.0], [nan, 2.0], inf, None, 0.5, id="became NaN"),
        pytest.param([nan, 2.0], [1.0, 2.0], inf, None, 0.5, id="ceased to be NaN"),
        pytest.param([1.0, 2.0], [inf, 2.0], inf, None, 0.5, id="became infinite"),
        pytest.param([inf, 2.0], [-inf, 2.0], inf, None, 0.5, id="the other infinity"),
        pytest.param([inf, 2.0], [nan, 2.0], inf, None, 0.5, id="from infinite to NaN"),
        pytest.param([0.0, 0.0], [-0.0, 0.0], 0.0, 1.0, 0.0, id="zeros"),
        pytest.param([0.0, 0.0], [3.0, 4.0], 5.0, None, 1.0, id="from zero"),
        pytest.param([3.0, 4.0], [0.0, 0.0], 5.0, None, 1.0, id="to zero"),
        pytest.param([3.0, 4.0], [-3.0, -4.0], 10.0, -1.0, 1.0, id="turned round"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_values_that_are_no_numbers(a, b, l2, cosine, changed, dtype):
    moved = only(torch.tensor(a).to(dtype), torch.tensor(b).to(dtype))
    assert (moved.l2, moved.changed) == (l2, changed)
    assert moved.cosine == (cosine if cosine is None else pytest.approx(cosine))
    norm = math.sqrt(sum(x * x for x, y in zip(a, b, strict=True) if math.isfinite(x) and math.isfinite(y)))
    assert moved.relative == pytest.approx(l2 / norm if norm else (inf if l2 else 0.0))
    assert moved.max_abs == (
        inf if l2 == inf else max(abs(y - x) for x, y in zip(a, b, strict=True) if x * y == x * y and abs(x) != inf)
    )
    json.dumps(moved.to_dict(), allow_nan=False)


def test_large_and_small_values_do_not_overflow_or_vanish():
    a, b = torch.tensor([3e38, 1.0]), torch.tensor([-3e38, 1.0])
    assert only(a, b).l2 == pytest.approx(6e38)
    tiny = torch.tensor([1e-30]), torch.tensor([3e-30])
    assert only(*tiny).relative == pytest.approx(2)


def test_integers_that_float64_cannot_tell_apart_are_told_apart():
    a = torch.tensor([2**62, 5])
    assert only(a, a + torch.tensor([1, 0])).changed == 0.5


def test_dtypes_and_devices_may_differ():
    a = filled((5,), torch.float32, 0)
    moved = only(a, a.to(torch.bfloat16))
    assert moved.dtype == "float32 → bfloat16"
    assert_is(moved, a, a.to(torch.bfloat16))
    assert only(torch.tensor([1, 2]), torch.tensor([1.0, 2.5])).l2 == 0.5
    assert only(torch.tensor([1.0]), torch.tensor([1 + 2j])).l2 == 2.0


@pytest.mark.gpu
def test_one_side_on_the_gpu():
    a, b = filled((1000,), torch.float32, 0), filled((1000,), torch.float32, 1)
    for one, other in ((a.cuda(), b), (a, b.cuda()), (a.cuda(), b.cuda())):
        assert_is(only(one, other), a, b)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_tensors_are_compared_by_value():
    a, b = torch.eye(3), torch.eye(3) * 2
    assert_is(only(a.to_sparse(), b.to_sparse()), a, b)
    assert_is(only(a.to_sparse_csr(), b), a, b)


numbers = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), max_size=8))
def test_any_values(pairs):
    """What the docstring says of every element, counted one by one."""
    a, b = (torch.tensor([p[k] for p in pairs], dtype=torch.float32) for k in (0, 1))
    moved = only(a, b)
    same = [x == y or (x != x and y != y) for x, y in pairs]
    finite = [math.isfinite(x) and math.isfinite(y) for x, y in pairs]
    assert moved.changed == (same.count(False) / len(pairs) if pairs else 0.0)
    if any(not s and not f for s, f in zip(same, finite, strict=True)):
        assert (moved.l2, moved.max_abs, moved.relative, moved.cosine) == (inf, inf, inf, None)
    else:
        differences = [y - x for (x, y), f in zip(pairs, finite, strict=True) if f]
        assert moved.max_abs == max(map(abs, differences), default=0.0)
        assert moved.l2 == pytest.approx(math.sqrt(sum(d * d for d in differences)), rel=1e-9)
    assert not any(isinstance(v, float) and math.isnan(v) for v in figures(moved).values())


# --- states --------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.head = nn.Linear(3, 3, bias=False)
        self.head.weight = self.body[0].weight
        self.register_buffer("scale", torch.ones(2), persistent=False)


def moved_model(seed=0):
    torch.manual_seed(seed)
    model = Tied()
    history = tc.History(model=model)
    before = history.take(step=1)
    old = copy.deepcopy(model).state_dict()
    with torch.no_grad():
        for p in model.body.parameters():
            p.add_(torch.randn_like(p))
        model.body[1].num_batches_tracked += 3
    return model, history, before, old


def test_a_model_tensor_by_tensor_and_module_by_module():
    model, _, before, old = moved_model()
    found = tc.compare(before, model)
    new = model.state_dict()
    assert {each.name for each in found.tensors} == set(new)
    for name, t in new.items():
        assert_is(found.tensor(name), old[name], t)
    relative = [each.relative for each in found.tensors]
    assert relative == sorted(relative, reverse=True)
    assert [each.name for each in found.modules] == ["", "body", "body.0", "body.1", "head"]
    for module in found.modules:
        inside = [n for n in new if n.startswith(f"{module.name}." if module.name else "")]
        if module.name == "":
            inside.remove("head.weight")  # tied: it is there as body.0.weight
        both = [torch.cat([s[n].double().reshape(-1) for n in inside]) for s in (old, new)]
        assert_is(module, *both)
        assert module.tensors == len(inside)
    assert found.whole is found.module("")


def test_the_sources_can_be_of_any_kind():
    model, history, before, old = moved_model()
    after = history.take(step=2)
    expected = tc.compare(old, model.state_dict()).to_dict()
    for a in (before, old, before.state_dict()):
        for b in (after, model, model.state_dict(), torch.compile(model, backend="eager")):
            found = tc.compare(a, b).to_dict()
            assert (found["tensors"], found["modules"]) == (expected["tensors"], expected["modules"])


def test_nothing_is_changed_and_nothing_is_held():
    model, _, before, old = moved_model()
    versions = [t._version for t in model.state_dict(keep_vars=True).values()]
    found = tc.compare(before, model)
    kept = found.to_dict()
    assert [t._version for t in model.state_dict(keep_vars=True).values()] == versions
    with torch.no_grad():
        for t in model.state_dict().values():
            t.zero_()
    assert found.to_dict() == kept, "the record changes with the model"
    assert all(torch.equal(t, old[name]) for name, t in before.state_dict().items())


def test_parts_of_a_snapshot():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    history = tc.History(model=model, optimizer=optimizer, epoch=3)
    snapshots = []
    for _ in range(2):
        model(torch.randn(4, 2)).sum().backward()
        optimizer.step()
        snapshots.append(history.take())
    assert {each.name for each in tc.compare(*snapshots).tensors} == {"weight", "bias"}
    of_optimizer = tc.compare(*snapshots, part="optimizer")
    assert of_optimizer.tensor("state.0.step").l2 == 1
    assert of_optimizer.module("state.1").tensors == 3
    alone = tc.History(optimizer=optimizer, epoch=3)
    assert len(tc.compare(alone.take(), alone.take()).tensors) == 6, "the only part with tensors"


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_every_mode_gives_the_same_record(mode):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    history = tc.History(model=model, mode=mode)
    a = history.take()
    old = {name: t.clone() for name, t in model.state_dict().items()}
    with torch.no_grad():
        model[1].weight.add_(1)
    b = history.take()
    expected, found = tc.compare(old, model.state_dict()), tc.compare(a, b)
    assert found.to_dict()["tensors"] == expected.to_dict()["tensors"]
    assert found.to_dict()["modules"] == expected.to_dict()["modules"]
    with torch.no_grad():
        model[0].weight.zero_()
    assert tc.compare(a, b).to_dict() == found.to_dict(), "a write to the model is seen in the snapshots"


def test_what_lazy_snapshots_share_is_read_once(monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    history = tc.History(model=model, mode="lazy")
    first = history.take()
    snapshots = []
    for _ in range(3):
        with torch.no_grad():
            model[1].weight.add_(1)
        snapshots.append(history.take())
    read = []
    inner, same = comparison.difference_sums, comparison.sums_of_equal
    monkeypatch.setattr(comparison, "difference_sums", lambda a, b: read.append("pair") or inner(a, b))
    monkeypatch.setattr(comparison, "sums_of_equal", lambda a: read.append("norm") or same(a))
    for snapshot in snapshots:
        found = tc.compare(first, snapshot)
        assert found.tensor("0.weight").changed == 0.0
        assert found.tensor("0.weight").cosine == 1.0
        assert found.tensor("1.weight").changed == 1.0
    assert read.count("pair") == 3
    assert read.count("norm") == 3, "each of the three tensors that nobody writes, once"


def test_shared_norms_are_not_taken_for_those_of_buffers_that_are_written_again():
    """Memory of snapshots that are gone is used again; what was known of it is not."""
    model = nn.Linear(2, 2, bias=False)
    history = tc.History(model=model, mode="eager", keep=1)
    for value in (1.0, 2.0, 3.0):
        nn.init.constant_(model.weight, value)
        snapshot = history.take()
        assert tc.compare(snapshot, snapshot).whole.l2 == 0
        nn.init.constant_(model.weight, 0.0)
        assert tc.compare(snapshot, model).whole.l2 == 2 * value


def test_what_cannot_be_compared_is_listed():
    a = {
        "w": torch.zeros(2),
        "gone": torch.zeros(3),
        "shape": torch.zeros(2, 3),
        "meta": torch.zeros(2, device="meta"),
    }
    b = {"w": torch.ones(2), "new": torch.zeros(1), "shape": torch.zeros(3, 2), "meta": torch.zeros(2), "text": "b"}
    found = tc.compare(a, b)
    assert [each.name for each in found.tensors] == ["w"]
    assert {each.name: (each.a, each.b) for each in found.not_compared} == {
        "gone": ("float32[3] cpu", None),
        "shape": ("float32[2, 3] cpu", "float32[3, 2] cpu"),
        "meta": ("float32[2] meta", "float32[2] cpu"),
        "new": (None, "float32[1] cpu"),
    }
    assert "the shapes differ" in str(found)
    assert "new: only in b" in str(found)
    with pytest.raises(tc.InputError, match=r"'shape' was not compared: .*the shapes differ"):
        found.tensor("shape")


def test_states_with_nothing_in_common():
    found = tc.compare({"a": torch.zeros(1)}, {"b": torch.zeros(1)})
    assert (found.tensors, found.whole.numel, found.whole.cosine) == ((), 0, 1.0)
    assert "0 of 0 tensors moved" in str(found)


def test_what_became_nan_stands_before_what_began_at_zero():
    a = {"bias": torch.zeros(2), "weight": torch.ones(2), "same": torch.ones(2), "little": torch.ones(2)}
    b = {
        "bias": torch.ones(2),
        "weight": torch.tensor([1, nan]),
        "same": torch.ones(2),
        "little": torch.ones(2) * 1.1,
    }
    assert [each.name for each in tc.compare(a, b).tensors] == ["weight", "bias", "little", "same"]


def test_extra_state_is_no_weight():
    a = {"w": torch.zeros(1), "m._extra_state": torch.zeros(1)}
    b = {"w": torch.zeros(1), "m._extra_state": torch.ones(2)}
    found = tc.compare(a, b)
    assert ([each.name for each in found.tensors], found.not_compared) == (["w"], ())


def test_the_table_has_the_most_moved_first_and_fits_80_columns():
    a = {f"a_rather_long_name_for_a_layer.{k}.weight": torch.ones(1000) for k in range(30)}
    b = {name: t * (1 + k) for k, (name, t) in enumerate(a.items())}
    found = tc.compare(a, b)
    lines = str(found).splitlines()
    assert lines[:2] == ["from dict of 30 to dict of 30", "29 of 30 tensors moved, relative 16.9, L2 2.92e+03"]
    assert lines[3].startswith("…ng_name_for_a_layer.29.weight ")
    assert lines[3].split()[1:] == ["1000", "29", "917", "29", "100.00%"]
    assert lines[-1] == "… and 19 more"
    assert max(map(len, lines)) <= 80
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["tensors"][0]["relative"] == pytest.approx(29)
    with pytest.raises(AttributeError):
        found.a = "frozen"


# --- refused -------------------------------------------------------------------------------------------------


def _two_modules():
    return tc.History(one=nn.Linear(1, 1), two=nn.Linear(1, 1)).take()


STATE = {"w": torch.zeros(1)}


@pytest.mark.parametrize(
    ("a", "b", "part", "match"),
    [
        pytest.param(None, STATE, None, "`a` must be a Snapshot, a module, or", id="none"),
        pytest.param(STATE, 3, None, "`b` must be .*; got int: 3", id="number"),
        pytest.param(torch.zeros(2), STATE, None, r"`a` must be .*; got a tensor, float32\[2\]", id="tensor"),
        pytest.param([torch.zeros(2)], STATE, None, "`a` must be", id="list"),
        pytest.param(nn.Linear, STATE, None, "got the class Linear", id="class"),
        pytest.param("weights.pt", STATE, None, "got str: 'weights.pt'", id="path"),
        pytest.param(STATE, nn.LazyLinear(2), None, "has no shape yet", id="uninitialised"),
        pytest.param({}, STATE, None, "`a` has no tensors to compare", id="empty"),
        pytest.param(STATE, {"lr": 0.1}, None, "`b` has no tensors to compare", id="no tensors"),
        pytest.param(STATE, STATE, "model", "none was given to look for 'model' in", id="part of a dict"),
        pytest.param(STATE, _two_modules(), 3, "`part` must be the name of a part", id="part is a number"),
        pytest.param(STATE, _two_modules(), "three", "`b` has no part 'three': it has one, two, rng", id="no part"),
        pytest.param(STATE, _two_modules(), None, "say part=, one of 'one', 'two'", id="two modules"),
        pytest.param(STATE, {"a.b": torch.zeros(1), "a": {"b": torch.zeros(1)}}, None, "two tensors", id="names"),
    ],
)  # fmt: skip
def test_what_is_refused(a, b, part, match):
    with pytest.raises(tc.InputError, match=match) as caught:
        tc.compare(a, b, part=part)
    assert "\n" not in str(caught.value)


def test_names_that_are_not_there():
    found = tc.compare(nn.Linear(1, 1), nn.Linear(1, 1))
    with pytest.raises(tc.InputError, match=r"there is no tensor 'wieght': there are '.*'"):
        found.tensor("wieght")
    with pytest.raises(tc.InputError, match="there is no module 'body': there are ''"):
        found.module("body")
