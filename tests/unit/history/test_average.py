"""`average`: against a plain float64 loop, bit-identical for equal states, and apart from all of them."""

import copy
import math
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim.swa_utils import AveragedModel

import torchcopy as tc
from torchcopy.history.averages import weighted_mean
from torchcopy.history.comparing import pieces

inf, nan = math.inf, math.nan
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
DTYPES += [torch.float8_e4m3fn, torch.float8_e5m2]


def bits(t):
    """The bytes of a tensor."""
    return t.detach().contiguous().view(-1).view(torch.uint8).clone() if t.numel() else t


def plain_mean(tensors, weights):
    """The weighted mean, added up in float64."""
    wide = torch.complex128 if tensors[0].is_complex() else torch.float64
    total = sum(weights)
    return sum(t.detach().to(wide) * (w / total) for t, w in zip(tensors, weights, strict=True)).to(
        tensors[0].dtype
    )


class Net(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(5, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.full((2, 2), -inf).triu(1))
        with torch.no_grad():
            self.body[1].running_mean.normal_()
            self.body[1].num_batches_tracked.fill_(seed)

    def forward(self, x):
        return self.head(self.body(self.embed(x)))


def assert_apart(result, sources):
    """Asserts, by writing to each side, that the other one does not change. Sources are state_dicts."""
    before = {name: t.clone() for name, t in result.items()}
    with torch.no_grad():
        for source in sources:
            for t in source.values():
                t.zero_()
    assert all(torch.equal(t, before[name]) for name, t in result.items()), (
        "a write to a state is seen in the result"
    )
    with torch.no_grad():
        for t in result.values():
            t.fill_(1)
    assert not any(bool(t.any()) for source in sources for t in source.values()), "a write to the result is seen"


# --- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("weights", [None, [1, 1, 1, 1], [0.1, 5, 0, 2.5], [1e-300, 1e-300, 2e-300, 0]], ids=str)
def test_it_is_the_plain_mean(dtype, weights):
    generator = torch.Generator().manual_seed(0)
    wide = torch.complex64 if dtype.is_complex else torch.float32
    states = [{"t": torch.randn(3, 50, dtype=wide, generator=generator).to(dtype)} for _ in range(4)]
    found = tc.average(states, weights)["t"]
    scaled = [1.0] * 4 if weights is None else [w / max(weights) for w in weights]
    expected = plain_mean([s["t"] for s in states], scaled)
    assert found.dtype == dtype
    # what is rounded on the way is as large as the values, which are below 4
    rounding = 1e-15 if dtype in (torch.float64, torch.complex128) else 0
    found_wide, expected = found.to(torch.complex128), expected.to(torch.complex128)
    torch.testing.assert_close(found_wide, expected, rtol=torch.finfo(dtype).eps, atol=rounding)
    assert_apart({"t": found}, states)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_mean_of_identical_states_is_identical_to_the_bit(count, dtype):
    generator = torch.Generator().manual_seed(0)
    t = torch.randn(1000, generator=generator) * torch.tensor([1e-40, 1e30]).repeat(500)
    t[:4] = torch.tensor([-0.0, inf, -inf, nan])
    t = t.to(dtype)
    found = tc.average([{"t": t.clone()} for _ in range(count)], weights=[0.1 * (k + 1) for k in range(count)])["t"]
    assert torch.equal(bits(found), bits(t))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, inf], inf), ([inf, 1.0], inf), ([-inf, 1.0, -inf], -inf), ([inf, -inf], nan), ([nan, 1.0], nan),
        ([1.0, nan], nan), ([-inf, -inf], -inf), ([3e38, -3e38], 0.0), ([3e38, 3e38], 3e38), ([0.0, -0.0], 0.0),
    ],
    ids=str,
)  # fmt: skip
def test_infinities_and_nan_add_up(values, expected):
    found = tc.average([{"t": torch.tensor([v, 1.0])} for v in values])["t"]
    torch.testing.assert_close(found, torch.tensor([expected, 1.0]), equal_nan=True)


def test_doubles_do_not_overflow_on_the_way():
    found = tc.average([{"t": torch.tensor([v], dtype=torch.float64)} for v in (1.7e308, -1.7e308, 1.7e308)])["t"]
    assert float(found) == pytest.approx(1.7e308 / 3)


def test_many_half_precision_states_lose_nothing():
    """An accumulator in bfloat16 would stand still."""
    states = [{"t": torch.full((2,), 1.0 + (k % 2) / 128).bfloat16()} for k in range(301)]
    expected = plain_mean([s["t"] for s in states], [1.0] * 301)
    assert torch.equal(tc.average(iter(states))["t"], expected)


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(finite, min_size=3, max_size=3), st.floats(0.01, 100)), min_size=1, max_size=5))
def test_any_values_and_weights(given_states):
    rows, weights = [r for r, _ in given_states], [w for _, w in given_states]
    states = [{"t": torch.tensor(row)} for row in rows]
    found = tc.average(states, weights)["t"].tolist()
    for k, value in enumerate(found):
        column = [s["t"][k].item() for s in states]
        exact = math.fsum(x * (w / sum(weights)) for x, w in zip(column, weights, strict=True))
        scale = max(map(abs, column))
        assert value == pytest.approx(exact, rel=1e-6, abs=1e-12 * scale + 1e-44)
        assert (
            min(column) - abs(min(column)) * 1e-6 - 1e-44 <= value <= max(column) + abs(max(column)) * 1e-6 + 1e-44
        )
        if len(set(column)) == 1:
            assert value == column[0]


@pytest.mark.parametrize("shape", [(4, 8, 16, 16), (7, 33), (0,), ()], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last", "mixed"])
def test_pieces_and_strides(monkeypatch, shape, layout):
    monkeypatch.setattr(pieces, "_CPU_PIECE", 100)
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator) for _ in range(3)]
    if layout == "transposed" and len(shape) > 1:
        tensors = [t.transpose(0, -1) for t in tensors]
    elif layout == "channels last" and len(shape) == 4:
        tensors = [t.to(memory_format=torch.channels_last) for t in tensors]
    elif layout == "mixed" and len(shape) > 1:
        tensors[1] = tensors[1].transpose(0, -1).contiguous().transpose(0, -1)
    found = tc.average([{"t": t} for t in tensors])["t"]
    torch.testing.assert_close(found, plain_mean(tensors, [1.0] * 3), rtol=1e-6, atol=1e-7)
    assert found.stride() == torch.empty_like(tensors[-1]).stride()


def test_one_piece_is_widened_at_a_time(monkeypatch):
    """No stack of all states, and no whole state in float64."""
    seen = []
    inner = weighted_mean._mean
    monkeypatch.setattr(
        weighted_mean, "_mean", lambda given, *rest: seen.append(given[0].numel()) or inner(given, *rest)
    )
    monkeypatch.setattr(pieces, "_CPU_PIECE", 100)
    tc.average([{"a": torch.randn(950), "b": torch.randn(30, 30).t()} for _ in range(5)])
    assert max(seen) <= 100
    assert sum(seen) == 950 + 900


# --- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["eager", "lazy", "background", "state_dicts", "modules", "iterator"])
def test_states_of_a_model(kind):
    nets = [Net(seed) for seed in range(3)]
    old = [copy.deepcopy(net.state_dict()) for net in nets]
    live = Net(0)
    if kind in ("eager", "lazy", "background"):
        given_states = tc.History(model=live, mode=kind, keep=None)
        for net in nets:
            live.load_state_dict(net.state_dict())
            given_states.take()
    elif kind == "modules":
        given_states = nets
    else:
        given_states = [net.state_dict() for net in nets]
        given_states = iter(given_states) if kind == "iterator" else given_states
    found = tc.average(given_states)
    assert type(found) is OrderedDict
    assert list(found) == list(old[0])
    assert found._metadata == old[0]._metadata
    for name, t in found.items():
        if t.dtype.is_floating_point:
            torch.testing.assert_close(t, plain_mean([s[name] for s in old], [1.0] * 3), rtol=1e-6, atol=1e-7)
    assert int(found["body.1.num_batches_tracked"]) == 2, "the last one's counter"
    assert torch.equal(found["mask"], old[0]["mask"]), "equal infinities stay"
    assert found["head.weight"] is found["embed.weight"], "tied weights are tied"
    fresh = Net(9)
    fresh.load_state_dict(found)
    assert fresh.head.weight is fresh.embed.weight
    torch.testing.assert_close(fresh.head.weight.detach(), found["head.weight"])
    states = (
        [s._own_state_dict("model") for s in given_states]
        if kind in ("eager", "lazy")
        else [n.state_dict() for n in nets]
    )
    if kind in ("eager", "lazy", "background"):
        again = [s.state_dict("model") for s in given_states]
        with torch.no_grad():
            for t in found.values():
                t.fill_(7)
        for snapshot, before in zip(given_states, again, strict=True):
            assert all(torch.equal(t, before[n]) for n, t in snapshot.state_dict("model").items())
    else:
        assert_apart(found, states)


def test_it_agrees_with_averaged_model():
    nets = [Net(seed) for seed in range(5)]
    theirs = AveragedModel(nets[0], use_buffers=True)
    for net in nets:
        theirs.update_parameters(net)
    found = tc.average(nets)
    for name, t in theirs.module.state_dict().items():
        if t.dtype.is_floating_point and name != "mask":  # which they turn to NaN
            torch.testing.assert_close(found[name], t)


def test_buffers_of_the_last():
    nets = [Net(seed) for seed in range(3)]
    history = tc.History(model=nets[0])
    states = [copy.deepcopy(net.state_dict()) for net in nets]
    kept = [net.state_dict(keep_vars=True) for net in nets]
    for given_states in (nets, [*states[:2], nets[2]], [nets[0], states[1], states[2]], kept):
        found = tc.average(given_states, buffers="last")
        assert torch.equal(found["body.1.running_mean"], states[2]["body.1.running_mean"])
        torch.testing.assert_close(
            found["body.0.weight"], plain_mean([s["body.0.weight"] for s in states], [1] * 3)
        )
    first = history.take()
    nets[0].load_state_dict(states[2])
    found = tc.average([first, history.take()], buffers="last")
    assert torch.equal(found["body.1.running_mean"], states[2]["body.1.running_mean"])
    assert not torch.equal(found["body.0.weight"], states[2]["body.0.weight"])
    with pytest.raises(tc.InputError, match="needs to know which are buffers"):
        tc.average(states, buffers="last")


def test_ties_are_those_that_all_states_have():
    tied, untied = Net(0).state_dict(), copy.deepcopy(Net(1).state_dict())
    untied["head.weight"] = untied["head.weight"] + 1
    found = tc.average([tied, untied])
    assert found["head.weight"] is not found["embed.weight"]
    torch.testing.assert_close(found["head.weight"] - found["embed.weight"], torch.full((5, 4), 0.5))


def test_nested_states_values_and_extra_state():
    a = {"nested": [{"w": torch.zeros(2)}, torch.tensor(1)], "lr": 0.1, "m._extra_state": torch.zeros(1)}
    b = {"nested": [{"w": torch.ones(2)}, torch.tensor(2)], "lr": 0.2, "m._extra_state": torch.ones(1)}
    found = tc.average([a, b])
    assert found["nested"][0]["w"].tolist() == [0.5, 0.5]
    assert (int(found["nested"][1]), found["lr"], float(found["m._extra_state"])) == (2, 0.2, 1.0)
    found["nested"][1].fill_(9)
    found["m._extra_state"].fill_(9)
    assert (int(b["nested"][1]), float(b["m._extra_state"])) == (2, 1.0)


def test_parts_of_snapshots():
    model = nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    history = tc.History(model=model, optimizer=optimizer)
    for _ in range(2):
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        history.take()
    found = tc.average(history, part="optimizer")
    moments = [s.state("optimizer")["state"][0]["exp_avg"] for s in history]
    torch.testing.assert_close(found["state"][0]["exp_avg"], (moments[0] + moments[1]) / 2)
    optimizer.load_state_dict(found)


@pytest.mark.gpu
def test_states_on_several_devices():
    nets = [Net(0), Net(1).cuda(), Net(2)]
    found = tc.average(nets)
    expected = plain_mean([net.body[0].weight.detach().cpu() for net in nets], [1.0] * 3)
    assert not found["body.0.weight"].is_cuda
    torch.testing.assert_close(found["body.0.weight"], expected)
    assert tc.average(nets[:2])["body.0.weight"].is_cuda


# --- refused -------------------------------------------------------------------------------------------------

A, B = {"w": torch.zeros(2)}, {"w": torch.ones(2)}


@pytest.mark.parametrize(
    ("states", "options", "match"),
    [
        pytest.param(None, {}, "`snapshots` must be several", id="none"),
        pytest.param(A, {}, "got one dict", id="one state"),
        pytest.param(nn.Linear(1, 1), {}, "got one Linear", id="one module"),
        pytest.param([], {}, "`snapshots` is empty", id="empty"),
        pytest.param([A, 3], {}, r"`snapshots\[1\]` must be a Snapshot, a module", id="a number"),
        pytest.param([A, torch.zeros(2)], {}, r"`snapshots\[1\]` must be .*got a tensor", id="a tensor"),
        pytest.param([A, B], {"weights": [1]}, "as many as the states, 2; got 1", id="too few weights"),
        pytest.param([A, B], {"weights": 0.5}, "must be a number for each state", id="one weight"),
        pytest.param([A, B], {"weights": [1, -1]}, r"`weights\[1\]` must be finite and not neg", id="negative"),
        pytest.param([A, B], {"weights": [1, nan]}, r"`weights\[1\]` must be finite", id="NaN"),
        pytest.param([A, B], {"weights": [1, 10**400]}, r"`weights\[1\]` must be finite", id="huge"),
        pytest.param([A, B], {"weights": ["1", 2]}, r"`weights\[0\]` must be a number", id="text"),
        pytest.param([A, B], {"weights": [True, 2]}, r"`weights\[0\]` must be a number", id="bool"),
        pytest.param([A, B], {"weights": [0, 0]}, "must not all be 0", id="zeros"),
        pytest.param([A, B], {"buffers": "first"}, "`buffers` must be one of 'average', 'last'", id="buffers"),
        pytest.param([A, B], {"part": "model"}, "none was given to look for 'model' in", id="part"),
        pytest.param([{"lr": 0.1}], {}, "has no tensors to average", id="no tensors"),
        pytest.param([A, {"w": torch.zeros(3)}], {}, r"'w' is float32\[3\] cpu, in snapshots\[0\]", id="shape"),
        pytest.param([A, {"w": torch.zeros(2).half()}], {}, r"'w' is float16\[2\] cpu", id="dtype"),
        pytest.param([{"w": torch.zeros(2, device="meta")}] * 2, {}, "can be averaged", id="meta"),
        pytest.param([{"w": torch.zeros(2).to_sparse()}], {}, "can be averaged: .*sparse_coo", id="sparse"),
    ],
)  # fmt: skip
def test_what_is_refused(states, options, match):
    with pytest.raises(tc.InputError, match=match):
        tc.average(states, **options)


def test_all_differences_are_in_one_error():
    first = {"a": torch.zeros(2), "b": torch.zeros(2), "c": torch.zeros(2)}
    other = {"a": torch.zeros(3), "c": torch.zeros(2).double(), "d": torch.zeros(1)}
    with pytest.raises(tc.InputError) as caught:
        tc.average([first, other, first])
    lines = str(caught.value).splitlines()
    assert lines[0] == "nothing was averaged, as the states differ in 4 places:"
    assert sorted(lines[1:]) == [
        "  snapshots[1]: 'a' is float32[3] cpu, in snapshots[0] float32[2] cpu",
        "  snapshots[1]: 'b' is missing, snapshots[0] has it",
        "  snapshots[1]: 'c' is float64[2] cpu, in snapshots[0] float32[2] cpu",
        "  snapshots[1]: 'd' is not in snapshots[0]",
    ]


def test_weights_of_many_kinds():
    for weights in ([1, 3], (0.25, 0.75), torch.tensor([1.0, 3.0]), iter([1, 3]), [0.5, 1.5]):
        assert tc.average([A, B], weights)["w"].tolist() == [0.75, 0.75]
