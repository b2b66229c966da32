"""`EMA`: the values against PyTorch's own average, both sides apart, the weights swapped in and brought back."""

import copy
import gc
import math
import pickle
import threading
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

import torchcopy as tc
from torchcopy.history.averages import averaged_pairs


class Net(nn.Module):
    """Has tied weights, floating and integer buffers, one of them not persistent, and a mask of infinities."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Linear(4, 4, bias=False)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.full((4, 4), -math.inf).triu(1))
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x):
        return self.head(self.body(self.embed(x)) * self.scale) + self.mask.softmax(1).sum(1)


def tensors(model):
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def values(model):
    return {name: t.detach().clone() for name, t in tensors(model).items()}


def equal(model, before):
    now = tensors(model)
    return now.keys() == before.keys() and all(torch.equal(t, before[name]) for name, t in now.items())


def step(model, optimizer=None):
    """A training step: gradients and running statistics; without an optimizer the weights move at random."""
    model.train()
    model(torch.randn(8, 4)).square().mean().backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()
        return
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.1)


# --- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("use_buffers", [False, True], ids=["copied", "averaged"])
def test_it_is_averaged_model_to_the_bit(decay, use_buffers):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    theirs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=use_buffers)
    theirs.update_parameters(model)  # its first call copies
    ours = tc.EMA(model, decay, buffers="average" if use_buffers else "copy")
    for _ in range(100):
        step(model, optimizer)
        theirs.update_parameters(model)
        assert ours.update()
    other = tensors(theirs.module)
    for name, t in tensors(ours.model).items():
        if name == "mask":  # which theirs turns to NaN
            assert torch.equal(t, model.mask)
        elif name == "body.1.num_batches_tracked" and use_buffers:
            assert int(t) == 100, "copied; theirs rounds it down at each step"
        else:
            assert torch.equal(t, other[name]), name


def test_the_three_ways_with_buffers():
    model = Net()
    emas = {way: tc.EMA(model, 0.5, buffers=way) for way in ("average", "copy", "keep")}
    old = values(model)
    step(model)
    new = values(model)
    for ema in emas.values():
        ema.update()
        assert torch.equal(ema.model.body[0].weight, torch.lerp(old["body.0.weight"], new["body.0.weight"], 0.5))
    means = {way: ema.model.body[1].running_mean for way, ema in emas.items()}
    name = "body.1.running_mean"
    assert torch.equal(means["average"], torch.lerp(old[name], new[name], 0.5))
    assert torch.equal(means["copy"], new[name])
    assert torch.equal(means["keep"], old[name])
    counters = {way: int(ema.model.body[1].num_batches_tracked) for way, ema in emas.items()}
    assert counters == {"average": 1, "copy": 1, "keep": 0}


def test_statistics_made_anew_stay_with_keep():
    model = Net()
    ema = tc.EMA(model, 0.5, buffers="keep")
    step(model)
    ema.update()
    update_bn([torch.randn(8, 4) for _ in range(3)], ema.model)
    fresh = ema.model.body[1].running_mean.clone()
    step(model)
    ema.update()
    assert torch.equal(ema.model.body[1].running_mean, fresh)
    with ema.swapped():
        assert torch.equal(model.body[1].running_mean, fresh)


def test_every_nth_call_moves():
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    ema = tc.EMA(model, 0.5, update_every=3)
    nn.init.ones_(model.weight)
    assert [ema.update() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert (ema.steps, ema.updates, ema.model.weight.item()) == (7, 2, 0.75)


@pytest.mark.parametrize(
    ("options", "decays"),
    [
        ({"decay": 0.9}, [0.9] * 4),
        ({"decay": 0.9, "warmup": True}, [1 / 10, 2 / 11, 3 / 12, 4 / 13]),
        ({"decay": 0.2, "warmup": True}, [1 / 10, 2 / 11, 0.2, 0.2]),
        ({"decay": lambda n: 1 - (1 + n) ** -0.75}, [0, 1 - 2**-0.75, 1 - 3**-0.75, 1 - 4**-0.75]),
        ({"decay": lambda n: n / 2 if n < 2 else 1}, [0, 0.5, 1, 1]),
        ({"decay": np.float32(0.5)}, [0.5] * 4),
    ],
    ids=["constant", "warm-up", "warm-up to a limit", "inverse gamma", "schedule", "of numpy"],
)
def test_schedules(options, decays):
    model = nn.Linear(3, 3)
    ema = tc.EMA(model, **options)
    expected = model.weight.detach().double()
    for decay in decays:
        assert ema.decay == pytest.approx(decay)
        step(nn.Sequential(nn.Linear(4, 3), model))
        ema.update()
        expected = expected + (1 - decay) * (model.weight.detach().double() - expected)
        torch.testing.assert_close(ema.model.weight.double(), expected, rtol=1e-5, atol=1e-6)


def test_a_decay_of_zero_copies_whatever_was_there():
    model = nn.Linear(2, 2)
    ema = tc.EMA(model, lambda n: 0.0)
    with torch.no_grad():
        ema.model.weight.fill_(math.nan)
    ema.update()
    assert torch.equal(ema.model.weight, model.weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64], ids=str)
def test_other_dtypes(dtype):
    model = nn.Linear(3, 3, dtype=dtype)
    ema = tc.EMA(model, 0.5)
    old = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.mul_(3)
    ema.update()
    assert ema.model.weight.dtype == dtype
    assert torch.equal(ema.model.weight, torch.lerp(old, model.weight.detach(), 0.5))


def test_a_float32_average_of_a_bfloat16_model_moves_where_a_bfloat16_one_stands_still():
    model = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    nn.init.ones_(model.weight)
    wide, narrow = tc.EMA(model, 0.999, dtype=torch.float32), tc.EMA(model, 0.999)
    nn.init.constant_(model.weight, 1.5)
    for _ in range(100):
        wide.update()
        narrow.update()
    assert narrow.model.weight.item() == 1
    assert wide.model.weight.item() == pytest.approx(1.5 - 0.5 * 0.999**100, rel=1e-5)
    with wide.swapped():
        assert model.weight.dtype == torch.bfloat16
        assert model.weight.item() == pytest.approx(wide.model.weight.item(), rel=1e-2)
    assert model.weight.item() == 1.5


@pytest.mark.gpu
def test_an_average_on_the_cpu_of_a_model_on_the_gpu():
    model = Net().cuda()
    ema = tc.EMA(model, 0.5, device="cpu")
    old = values(model)
    with torch.no_grad():
        model.embed.weight.add_(1)
    ema.update()
    torch.testing.assert_close(
        ema.model.embed.weight, torch.lerp(old["embed.weight"], model.embed.weight, 0.5).cpu()
    )
    before = values(model)
    with ema.swapped():
        torch.testing.assert_close(model.embed.weight.cpu(), ema.model.embed.weight)
    assert equal(model, before)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["write", "data", "replace", "move", "swap", "half", "turn", "fork", "tie"]), max_size=14
    ),
    st.floats(0, 0.99),
    st.integers(1, 3),
)
def test_whatever_happens_to_the_weights_between_updates(events, decay, update_every):
    """The lists that an update keeps are right after weights were written, exchanged, replaced or moved."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    ema = tc.EMA(model, decay, update_every=update_every)
    expected, forks = values(model), []
    for k, event in enumerate(events, 1):
        new = torch.full((2, 2), float(k))
        with torch.no_grad():
            if event == "write":
                model[0].weight.copy_(new)
            elif event == "data":
                model[0].weight.data = new
            elif event == "replace":
                model[0].weight = nn.Parameter(new)
            elif event == "move":
                model[1] = copy.deepcopy(model[1])
                model[1].running_mean.fill_(k)
            elif event == "turn":  # the same memory, seen in another way
                model[0].weight.data = model[0].weight.data.t()
                model[0].weight[0, 1] += k
            elif event == "fork":
                forks.append(tc.fork(model))
            elif event == "tie":  # memory that two of them have
                model[1].weight.data = model[0].weight.data[0]
            elif event == "half":  # there and back again: buffers are other objects afterwards
                model.double().float()
            else:
                model[1].weight.data = model[1].weight.data.clone()
                with ema.swapped():
                    assert equal(model, values(ema.model))
        ema.update()
        if k % update_every == 0:
            for name, t in tensors(model).items():
                t = t.detach()
                floating = t.is_floating_point()
                expected[name] = torch.lerp(expected[name], t, 1 - decay) if floating and decay else t.clone()
        assert equal(ema.model, expected)


# --- two sides -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_the_average_and_the_model_stay_apart(updates):
    model = Net()
    ema = tc.EMA(model, 0.9)
    for _ in range(updates):
        step(model)
        ema.update()
    before = values(ema.model)
    with torch.no_grad():
        for t in tensors(model).values():
            t.zero_()
        for p in model.parameters():
            p.data.fill_(3)
    assert equal(ema.model, before), "a write to the model is seen in the average"
    before = values(model)
    with torch.no_grad():
        for t in tensors(ema.model).values():
            t.fill_(1)
    assert equal(model, before), "a write to the average is seen in the model"


def test_the_average_is_a_model_for_evaluation():
    model = Net().train()
    ema = tc.EMA(model)
    assert type(ema.model) is Net
    assert not any(m.training for m in ema.model.modules())
    assert not any(p.requires_grad for p in ema.model.parameters())
    assert all(m.training for m in model.modules())
    assert all(p.requires_grad for p in model.parameters())
    assert ema.model.head.weight is ema.model.embed.weight
    assert ema.model.embed.weight is not model.embed.weight
    torch.testing.assert_close(ema.model(torch.ones(2, 4)), model.eval()(torch.ones(2, 4)))


def test_tied_weights_move_once():
    model = Net()
    ema = tc.EMA(model, 0.5)
    old = model.embed.weight.detach().clone()
    with torch.no_grad():
        model.embed.weight.add_(2)
    ema.update()
    torch.testing.assert_close(ema.model.head.weight, old + 1)
    assert ema.model.head.weight is ema.model.embed.weight


@pytest.mark.parametrize("decay", [0.5, lambda n: 0], ids=["moved", "copied"])
@pytest.mark.parametrize("name", ["weight", "count"])
def test_a_tie_that_is_broken_is_refused_at_the_first_update(name, decay):
    """One of the two still shares its bytes with the average, which cannot follow both."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False), nn.Linear(1, 1))
    for layer in model[:2]:
        layer.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    model[1].weight, model[1].count = model[0].weight, model[0].count
    nn.init.zeros_(model[0].weight)
    ema = tc.EMA(model, decay)
    before = values(ema.model)
    with torch.no_grad():
        model[2].weight.add_(1)
    if name == "weight":
        model[1].weight = nn.Parameter(torch.ones(1, 1))
    else:
        model[1].count = torch.ones(1, dtype=torch.int64)
    with pytest.raises(tc.InputError, match=r"wrote nothing.*found others"):
        ema.update()
    assert equal(ema.model, before)
    assert (ema.steps, ema.updates) == (0, 0)
    if name == "weight":
        model[1].weight = model[0].weight
    else:
        model[1].count = model[0].count
    assert ema.update()
    share = 1 - (decay if isinstance(decay, float) else 0)
    torch.testing.assert_close(ema.model[2].weight, before["2.weight"] + share)
    with torch.no_grad():
        model[0].weight.add_(4)
    assert not ema.model[0].weight.any()


def test_a_compiled_model():
    inner = Net()
    model = torch.compile(inner, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ema, plain = tc.EMA(model, 0.5), tc.EMA(inner, 0.5)
    for _ in range(3):
        step(model, optimizer)
        ema.update()
        plain.update()
    x = torch.randn(4, 4)
    expected = plain.model(x)
    torch.testing.assert_close(ema.model(x), expected)
    trained = values(inner)
    with ema.swapped():
        model.eval()
        torch.testing.assert_close(model(x), expected)
    assert equal(inner, trained)
    plain.load_state_dict(ema.state_dict())
    assert equal(plain.model, {name.removeprefix("_orig_mod."): t for name, t in values(ema.model).items()})


# --- swapped -------------------------------------------------------------------------------------------------


def test_swapped_in_and_out():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    ema = tc.EMA(model, 0.9)
    for _ in range(3):
        step(model, optimizer)
        ema.update()
    with torch.no_grad():
        model.body[0].bias[0] = math.nan
        model.body[0].bias[1] = -0.0
    objects = {name: (id(t), t.data_ptr()) for name, t in tensors(model).items()}
    trained = {name: t.view(torch.uint8) for name, t in values(model).items() if t.dim()}
    average = values(ema.model)
    with ema.swapped() as inside:
        assert inside is model
        assert equal(model, average)
        assert {name: (id(t), t.data_ptr()) for name, t in tensors(model).items()} == objects
        with torch.no_grad():
            for t in tensors(model).values():
                t.fill_(1)
        assert equal(ema.model, average), "a write inside the block is seen in the average"
    assert {name: (id(t), t.data_ptr()) for name, t in tensors(model).items()} == objects
    assert all(torch.equal(tensors(model)[name].detach().view(torch.uint8), t) for name, t in trained.items())
    assert optimizer.param_groups[0]["params"][0] is model.embed.weight
    assert model.head.weight is model.embed.weight
    nn.init.zeros_(model.body[0].bias)
    step(model, optimizer)
    assert ema.update()


def test_the_weights_come_back_after_an_error():
    model = Net()
    ema = tc.EMA(model, 0.9)
    step(model)
    trained = values(model)
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), ema.swapped():
            raise error
        assert equal(model, trained)
    with ema.swapped():  # and the next block is none inside another one
        assert not equal(model, trained)
    assert equal(model, trained)


def _half(model, average):
    model.half()


def _data(model, average):
    for p in model.parameters():
        p.data = average[next(n for n, q in model.named_parameters() if q is p)].data


def _replaced(model, average):
    model.body[0].weight = nn.Parameter(torch.zeros(4, 4))
    model.scale = torch.zeros(4)


def _resized(model, average):
    model.body[0].bias.data = torch.zeros(7)


@pytest.mark.parametrize("change", [_half, _data, _replaced, _resized])
def test_the_weights_come_back_whatever_was_done_to_them(change):
    model = Net()
    ema = tc.EMA(model, 0.9)
    step(model)
    ema.update()
    step(model)
    trained, objects = values(model), {name: (t, t.data_ptr()) for name, t in tensors(model).items()}
    average = values(ema.model)
    with ema.swapped():
        change(model, tensors(ema.model))
    assert equal(model, trained)
    for name, t in tensors(model).items():
        assert t is objects[name][0]
        assert t.data_ptr() == objects[name][1]
    assert equal(ema.model, average)


def test_what_would_be_lost_is_refused_inside():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ema = tc.EMA(model, 0.9)
    step(model, optimizer)
    trained = values(model)
    with ema.swapped():
        with pytest.raises(tc.InputError, match=r"`SGD\.step\(\)` was called inside `swapped\(\)`"):
            step(model, optimizer)
        with pytest.raises(tc.InputError, match=r"`update` was called inside `swapped\(\)`"):
            ema.update()
        with pytest.raises(tc.InputError, match=r"inside a `swapped\(\)` block already"), ema.swapped():
            pass
        for make in (pickle.dumps, copy.deepcopy):
            with pytest.raises(tc.InputError, match="cannot be copied inside"):
                make(ema)
        other = nn.Linear(4, 1)
        torch.optim.SGD(other.parameters(), lr=0.1).step()  # of another model: nothing is lost
    assert equal(model, trained)
    assert ema.steps == 0
    optimizer.step()


# --- keeping it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_a_history_keeps_it(mode):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    ema = tc.EMA(model, 0.9, update_every=2)
    history = tc.History(model=model, optimizer=optimizer, ema=ema, mode=mode)

    def train(steps):
        for _ in range(steps):
            step(model, optimizer)
            ema.update()
        return values(ema.model), ema.steps, ema.updates

    train(5)
    snapshot = history.take()
    first, average = train(5), ema.model
    snapshot.restore()
    assert (ema.steps, ema.updates) == (5, 2)
    assert ema.model is average
    again = train(5)
    assert again[1:] == first[1:]
    assert all(torch.equal(t, first[0][name]) for name, t in again[0].items())
    assert tc.compare(snapshot, history.take(), part="ema").tensor("model.embed.weight").changed > 0


def test_its_state_can_be_loaded_into_another():
    model = Net()
    ema = tc.EMA(model, 0.9)
    for _ in range(3):
        step(model)
        ema.update()
    with torch.no_grad():
        ema.model.scale.fill_(5)
    state = ema.state_dict()
    assert set(state) == {"steps", "updates", "model", "non_persistent"}
    other = tc.EMA(Net(1), 0.9)
    address = other.model.embed.weight.data_ptr()
    other.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert equal(other.model, values(ema.model))
    assert (other.steps, other.updates) == (3, 3)
    other.update()
    with torch.no_grad():
        ema.model.embed.weight.zero_()
    assert other.model.embed.weight.all()
    assert address
    Net(2).load_state_dict(state["model"])


@pytest.mark.parametrize("make", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), tc.copy, tc.fork])
def test_copies_have_their_own_model_and_average(make):
    model = Net()
    ema = tc.EMA(model, 0.9, update_every=2)
    step(model)
    ema.update()
    other_model, other = make((model, ema))
    before = values(ema.model)
    with torch.no_grad():
        other_model.embed.weight.fill_(1)
    assert other.update()
    assert (ema.steps, other.steps, other.updates) == (1, 2, 1)
    assert equal(ema.model, before)
    torch.testing.assert_close(other.model.embed.weight, torch.lerp(before["embed.weight"], torch.ones(4, 4), 0.1))
    with other.swapped():
        assert equal(other_model, values(other.model))
    assert other_model.embed.weight.eq(1).all()
    assert not model.embed.weight.eq(1).any()


def test_nothing_stays_in_memory():
    model = Net()
    ema = tc.EMA(model)
    ema.update()
    with ema.swapped():
        pass
    gone = [weakref.ref(x) for x in (ema, ema.model, model)]
    del ema, model
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_updates_on_another_thread():
    model = Net()
    ema = tc.EMA(model, 0.5)
    old = model.embed.weight.detach().clone()
    with torch.no_grad():
        model.embed.weight.add_(2)
    thread = threading.Thread(target=ema.update)
    thread.start()
    thread.join()
    torch.testing.assert_close(ema.model.embed.weight, old + 1)
    assert torch.equal(model.embed.weight, old + 2)


# --- refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "match"),
    [
        pytest.param(None, {}, "`model` must be a module; got NoneType", id="none"),
        pytest.param(nn.Linear, {}, "`model` must be a module; got type", id="class"),
        pytest.param({"w": torch.zeros(1)}, {}, "`model` must be a module; got dict", id="state_dict"),
        pytest.param(..., {"decay": 1.0}, "`decay` must be from 0 to below 1, such as 0.999; got 1.0", id="one"),
        pytest.param(..., {"decay": -0.1}, "`decay` must be from 0", id="negative"),
        pytest.param(..., {"decay": math.nan}, "`decay` must be from 0 .*; got nan", id="NaN"),
        pytest.param(..., {"decay": "0.9"}, "`decay` must be a number .*; got '0.9'", id="text"),
        pytest.param(..., {"decay": True}, "`decay` must be a number .*; got True", id="bool"),
        pytest.param(..., {"decay": None}, "`decay` must be a number", id="no decay"),
        pytest.param(..., {"decay": float}, "`decay` must be a number", id="a class"),
        pytest.param(..., {"update_every": 0}, "`update_every` must be a whole number from 1 on; got 0", id="zero"),
        pytest.param(..., {"update_every": 1.5}, "`update_every` must be a whole", id="half"),
        pytest.param(..., {"warmup": 100}, "`warmup` must be True or False; got 100", id="warmup"),
        pytest.param(..., {"buffers": True}, "`buffers` must be one of 'average', 'copy', 'keep'", id="buffers"),
        pytest.param(..., {"dtype": "float32"}, "`dtype` must be a floating dtype", id="dtype"),
        pytest.param(..., {"dtype": torch.int64}, "`dtype` must be a floating dtype", id="int"),
        pytest.param(..., {"device": "gpu"}, "device", id="device"),
        pytest.param(nn.LazyLinear(2), {}, "'weight' is not initialised: run the model once", id="uninitialised"),
        pytest.param(nn.Linear(1, 1, device="meta"), {}, "'weight' is on the meta device", id="meta"),
    ],
)
def test_what_is_refused(model, options, match):
    with pytest.raises(tc.InputError, match=match) as caught:
        tc.EMA(Net() if model is ... else model, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given_decay", [None, -0.1, 1.5, math.nan, "a", True, torch.zeros(2)], ids=str)
def test_schedules_that_return_no_decay(given_decay):
    ema = tc.EMA(Net(), lambda n: given_decay)
    with pytest.raises(tc.InputError, match=r"`decay\(0\)` must return a number from 0 to 1"):
        ema.update()
    assert (ema.steps, ema.updates) == (0, 0)


def _wider(model):
    model.body[0] = nn.Linear(4, 5)


def _wider_counter(model):
    model.body[1].num_batches_tracked = torch.zeros(2, dtype=torch.int64)


def _more(model):
    model.extra = nn.Linear(1, 1)


def _fewer(model):
    del model.head


def _wider_in_place(model):
    model.body[0].bias.data = torch.zeros(9)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_wider, r"expected float32\[4, 4\] cpu, found float32\[5, 4\]"),
        (_wider_counter, r"num_batches_tracked'\]: expected int64\[\]"),
        (_more, r"extra"),
        (_fewer, r"head"),
        (_wider_in_place, r"dst\['body\.0\.bias'\]: expected float32\[4\] cpu, found float32\[9\]"),
    ],
)
@pytest.mark.parametrize("decay", [0.0, 0.9])
@pytest.mark.parametrize("updated", [False, True])
def test_a_model_that_is_another_one_now(change, match, decay, updated):
    model = Net()
    ema = tc.EMA(model, decay)
    if updated:
        ema.update()
    before, steps = values(ema.model), ema.steps
    with torch.no_grad():
        model.embed.weight.add_(1)
    change(model)
    trained = values(model)
    with pytest.raises(tc.InputError, match=match):
        ema.update()
    with pytest.raises(tc.InputError, match="wrote nothing"), ema.swapped():
        pytest.fail("the block was entered")
    assert equal(ema.model, before)
    assert equal(model, trained)
    assert ema.steps == ema.updates == steps


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: None, "`state` must be what .*; got NoneType"),
        (lambda s: s["model"], r"with steps, updates, model; got keys \['mask'"),
        (lambda s: {}, r"got keys \[\]"),
        (lambda s: {**s, "steps": -1}, r"`state\['steps'\]` must be a whole number from 0 on; got -1"),
        (lambda s: {**s, "updates": 1.5}, r"`state\['updates'\]` must be"),
        (lambda s: {**s, "updates": True}, r"`state\['updates'\]` must be"),
        (lambda s: {**s, "model": [1]}, r"`state\['model'\]` must be a state_dict; got list"),
        (lambda s: {**s, "model": {}}, "embed.weight"),
        (lambda s: {**s, "model": {**s["model"], "mask": torch.zeros(3)}}, r"mask: expected float32\[4, 4\]"),
        (lambda s: {**s, "model": {**s["model"], "more": torch.zeros(3)}}, "more"),
        (lambda s: {**s, "non_persistent": 3}, r"`state\['non_persistent'\]` must be a dict of tensors; got int"),
    ],
)
def test_states_that_are_refused(change, match):
    ema = tc.EMA(Net())
    ema.update()
    before = values(ema.model)
    with pytest.raises(tc.InputError, match=match):
        ema.load_state_dict(change(ema.state_dict()))
    assert equal(ema.model, before)
    assert (ema.steps, ema.updates) == (1, 1)


def test_frozen_weights_take_no_memory_and_are_right_once_they_are_trained():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    ema = tc.EMA(model, 0.5)
    old = values(model)
    for _ in range(2):
        with torch.no_grad():
            model[1].weight.add_(1)
        ema.update()
    assert tc.relate(model[0].weight, ema.model[0].weight).memory == "lazy"
    assert tc.relate(model[1].weight, ema.model[1].weight).memory == "separate"
    with torch.no_grad():
        model[0].weight.add_(2)
    assert torch.equal(ema.model[0].weight, old["0.weight"])
    ema.update()
    torch.testing.assert_close(ema.model[0].weight, old["0.weight"] + 1)
    torch.testing.assert_close(ema.model[1].weight, old["1.weight"] + 1.625)


def test_a_channels_last_model():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)).to(memory_format=torch.channels_last)
    ema = tc.EMA(model, 0.5)
    expected = values(model)
    for _ in range(5):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p))
        ema.update()
        expected = {name: torch.lerp(t, values(model)[name], 0.5) for name, t in expected.items()}
        assert equal(ema.model, expected)
    assert ema.model[1].weight.is_contiguous(memory_format=torch.channels_last)


def test_what_is_in_order_is_not_asked_about_again(monkeypatch):
    model = Net()
    ema = tc.EMA(model, 0.5)
    asked = []
    inner = averaged_pairs.lerp_
    monkeypatch.setattr(averaged_pairs, "lerp_", lambda *args: asked.append(1) or inner(*args))
    counts = []
    for k in range(8):
        step(model)
        with torch.no_grad():
            model.mask.copy_(model.mask.clone())
            model.scale.add_(1)
        if k == 5:
            model.body[0].weight.data = torch.ones(4, 4)
        ema.update()
        counts.append(len(asked))
    assert counts == [1, 2, 2, 2, 2, 3, 3, 3]
    assert ema.model.body[0].weight.isfinite().all()


def test_two_averages_do_not_go_into_one_memory():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    ema = tc.EMA(model, 0.5)
    model[1].weight.data = model[0].weight.data[0]
    before = values(model)
    with pytest.raises(tc.InputError, match="where it overlaps"), ema.swapped():
        pytest.fail("the block was entered")
    assert equal(model, before)
