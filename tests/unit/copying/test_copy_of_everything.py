"""`tc.copy` of what PyTorch programs hold: equal, with the same structure, and independent on both sides."""

import collections
import copy
import socket
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import torchcopy as tc


def assert_independent(a, b):
    """Writes to every tensor of each side, and looks at the other."""
    ours, theirs = a.state_dict(), b.state_dict()
    assert ours.keys() == theirs.keys()
    for written, looked_at in ((ours, theirs), (theirs, ours)):
        for name, t in written.items():
            assert torch.equal(ours[name], theirs[name]), name
            before = t.clone()
            t.add_(1)
            assert torch.equal(looked_at[name], before), name
            t.copy_(before)


def weight_norm_of(cls, *sizes, name="weight"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(cls(*sizes), name)


def run_once(module, x):
    module(x)
    return module


def pruned():
    module = nn.Linear(3, 3)
    prune.l1_unstructured(module, "weight", 0.5)
    return module


MODULES = {
    "weight_norm, old": lambda: weight_norm_of(nn.Linear, 3, 3),
    "weight_norm, old, after a forward": lambda: run_once(weight_norm_of(nn.Linear, 3, 3), torch.randn(2, 3)),
    "weight_norm, new": lambda: parametrizations.weight_norm(nn.Linear(3, 3)),
    "weight_norm of a GRU": lambda: weight_norm_of(nn.GRU, 3, 4, name="weight_hh_l0"),
    "spectral_norm, old": lambda: run_once(nn.utils.spectral_norm(nn.Linear(3, 3)), torch.randn(2, 3)).eval(),
    "spectral_norm, new": lambda: parametrizations.spectral_norm(nn.Linear(3, 3)).eval(),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(3, 3)),
    "LSTM": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "pruned": pruned,
    "convolution and BatchNorm": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2)
    ).eval(),
    "transformer layer": lambda: nn.Sequential(
        nn.Linear(3, 8), nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True)
    ),
    "compiled": lambda: torch.compile(nn.Linear(3, 3), backend="eager"),
}


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())
def test_a_copied_module_computes_the_same_and_trains_alone(make):
    module, x = make(), torch.randn(4, 3)
    expected = first(module(x)).detach().clone()
    copied = tc.copy(module, on_escape="error")
    assert type(copied) is type(module) or parametrize.is_parametrized(copied)  # these have a class each
    result = first(copied(x))
    assert torch.equal(result, expected)
    result.sum().backward()
    assert any(p.grad is not None for p in copied.parameters())
    assert all(p.grad is None for p in module.parameters())
    assert_independent(module, copied)


def test_a_recurrent_module_refers_to_its_new_weights():
    copied = tc.copy(nn.LSTM(3, 4))
    assert copied._flat_weights[0] is copied.weight_ih_l0
    assert [ref() for ref in copied._flat_weight_refs] == copied._flat_weights


def test_a_lazy_module_is_copied_uninitialised():
    module = nn.LazyLinear(3)
    copied = tc.copy(module)
    copied(torch.randn(2, 4))
    module(torch.randn(2, 5))
    assert (copied.weight.shape, module.weight.shape) == ((3, 4), (3, 5))


def sources():
    complex_ = torch.randn(3, dtype=torch.complex64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {
            "quantized": torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8),
            "quantized, large": torch.quantize_per_tensor(torch.randn(40_000), 0.1, 0, torch.qint8),
            "quantized, per channel": torch.quantize_per_channel(
                torch.randn(4, 4), torch.ones(4), torch.zeros(4), 0, torch.qint8
            ),
            "sparse COO": torch.eye(3).to_sparse(),
            "sparse CSR": torch.eye(3).to_sparse_csr(),
            "sparse CSC": torch.eye(3).to_sparse_csc(),
            "sparse BSR": torch.eye(4).to_sparse_bsr((2, 2)),
            "nested": torch.nested.nested_tensor([torch.randn(2), torch.randn(3)]),
            "jagged": torch.nested.nested_tensor([torch.randn(2, 2), torch.randn(3, 2)], layout=torch.jagged),
            "complex": complex_,
            "conj view": complex_.conj(),
            "neg view": complex_.conj().imag,
            "0-dim": torch.tensor(3.0),
            "empty": torch.empty(0, 3),
            "float8": torch.randn(4).to(torch.float8_e4m3fn),
            "bool": torch.tensor([True]),
            "uint16": torch.arange(3).to(torch.uint16),
            "expanded": torch.randn(3, 1).expand(3, 5),
            "expanded, large": torch.randn(1, 50_000).expand(7, 50_000),
            "channels_last": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
            "transposed": torch.randn(3, 4).t(),
            "overlapping windows": torch.arange(10.0).unfold(0, 3, 1),
            "large": torch.randn(100_000),
        }


SOURCES = sources()
PLACES = {
    "alone": (lambda t: t, lambda c: c),
    "in a dict": (lambda t: {"t": t}, lambda c: c["t"]),
    "in a tuple": (lambda t: (t,), lambda c: c[0]),
    "twice in a list": (lambda t: [t, t], lambda c: c[0] if c[0] is c[1] else None),
}


def values_of(t):
    if t.is_nested:
        return [row.clone() for row in t.unbind()]
    if t.is_quantized:
        return [t.dequantize()]
    t = t if t.layout == torch.strided else t.to_dense()
    return [t.detach().clone() if t.is_complex() else t.detach().to(torch.float64)]


@pytest.mark.filterwarnings("ignore:.*(prototype|beta|deprecated).*:UserWarning")
@pytest.mark.parametrize("memory", ["own", "lazy", "share"])
@pytest.mark.parametrize(("put", "take"), PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_a_tensor_of_any_kind(source, put, take, memory):
    copied = take(tc.copy(put(source), memory=memory))
    assert (type(copied), copied.dtype, copied.layout) == (type(source), source.dtype, source.layout)
    assert all(torch.equal(a, b) for a, b in zip(values_of(source), values_of(copied), strict=True))
    if source.layout == torch.strided and not source.is_nested and not source.is_neg():
        assert copied.stride() == source.stride()


@pytest.mark.parametrize("graph", ["detach", "keep"])
def test_a_meta_tensor_has_no_values_for_another_device(graph):
    with pytest.raises(tc.InputError, match=r"`obj\['w'\]` \(torch.Tensor\) is on the meta device"):
        tc.copy({"w": torch.empty(2, device="meta")}, device="cpu", graph=graph)


def test_a_meta_tensor_stays_one():
    copied = tc.copy((torch.empty(3, 4, device="meta"),))[0]
    assert copied.is_meta
    assert copied.shape == (3, 4)


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["own", "lazy"])
def test_views_of_one_storage_stay_views_of_one(memory):
    base = torch.arange(100.0)
    source = {"low": base[10:60], "high": base[55:], "bits": base.view(torch.int32)[12:14], "far": torch.ones(3)}
    copied = tc.copy(source, memory=memory)
    base[57] = -1.0
    assert copied["low"][47] == copied["high"][2] == 57.0
    copied["low"][47] = 5.0
    assert copied["high"][2] == 5.0
    assert base[57] == -1.0
    copied["bits"].zero_()
    assert copied["low"][2:4].tolist() == [0.0, 0.0]
    assert base[12] == 12.0


def test_only_what_is_viewed_is_copied():
    storage = torch.zeros(16 << 20)
    lone = tc.copy(storage[1000:1256])
    assert lone.untyped_storage().nbytes() == 1024
    far = tc.copy([storage[:10], storage[-10:]])
    assert far[0].untyped_storage().data_ptr() == far[1].untyped_storage().data_ptr()
    assert far[0].untyped_storage().nbytes() < 200
    storage[0] = 1.0
    far[1].fill_(2.0)
    assert far[0].sum() == 0
    assert storage[-1] == 0


def test_parameters_on_one_storage_and_tied_weights():
    flat = torch.randn(10)
    module = nn.ParameterList([nn.Parameter(flat[:5]), nn.Parameter(flat[5:])])
    module.tied = module[0]
    copied = tc.copy(module)
    assert copied[0].untyped_storage().data_ptr() == copied[1].untyped_storage().data_ptr()
    assert copied[1].storage_offset() == 5
    assert copied.tied is copied[0]
    assert_independent(module[1:], copied[1:])


@pytest.mark.filterwarnings("error")
def test_a_fork_copies_nothing_until_a_write():
    model = nn.Sequential(nn.Linear(20, 20), nn.BatchNorm1d(20))
    versions = [t._version for t in model.state_dict().values()]
    forks = tc.fork(model, 2)
    assert [t._version for t in model.state_dict().values()] == versions
    assert "lazy copy" in str(tc.relate(model, forks[0]))
    assert_independent(model, forks[0])
    assert_independent(forks[0], forks[1])


def test_where_torch_cannot_share_a_fork_copies_at_once():
    source = {"t": torch.from_numpy(np.ones(5))}
    forked = tc.fork(source)
    source["t"].add_(1)
    assert forked["t"].sum() == 5
    forked["t"].zero_()
    assert source["t"].sum() == 10


def test_share_gives_detached_aliases():
    module = nn.Linear(2, 2)
    alias = tc.copy(module, memory="share")
    assert alias.weight is not module.weight
    assert alias.weight.requires_grad
    with torch.no_grad():
        alias.weight.fill_(3.0)
    assert (module.weight == 3.0).all()


# --- the graph, gradients, attributes ------------------------------------------------------------------------


def test_a_non_leaf_is_copied_out_of_the_graph_or_in_it():
    leaf = torch.randn(3, requires_grad=True)
    source = leaf * 2
    detached = tc.copy(source)
    assert not detached.requires_grad
    detached.zero_()
    assert source.detach().abs().sum() > 0
    tc.copy({"t": (source, source)}, graph="keep")["t"][1].sum().backward()
    assert leaf.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("memory", ["own", "lazy", "share"])
def test_gradients_flow_through_kept_views(memory):
    leaf = torch.randn(10, requires_grad=True)
    source = leaf * 1
    low, high = tc.copy([source[:6], source[4:]], graph="keep", memory=memory)
    (low.sum() + high.sum()).backward()
    assert leaf.grad.tolist() == [1.0] * 4 + [2.0] * 2 + [1.0] * 4


def test_a_module_cannot_stay_in_the_graph():
    with pytest.raises(tc.InputError, match="functional_call"):
        tc.copy({"model": nn.Linear(2, 2)}, graph="keep")


def test_gradients_and_attributes_come_along_on_request():
    module = nn.Linear(2, 2)
    module(torch.ones(1, 2)).sum().backward()
    module.weight.tag = ["mine", module.weight]
    assert tc.copy(module).weight.grad is None
    copied = tc.copy(module, grad=True)
    module.weight.grad.zero_()
    assert copied.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert copied.weight.tag[0] == "mine"
    assert copied.weight.tag[1] is copied.weight


class Labelled(torch.Tensor):
    """A subclass that only adds Python."""


class Scale(nn.Parameter):
    """A parameter of another class."""


def test_subclasses():
    from torch.testing._internal.two_tensor import TwoTensor

    labelled, scale = torch.randn(3).as_subclass(Labelled), Scale(torch.zeros(3))
    labelled.note = "hi"
    copied = tc.copy({"s": [labelled, (labelled,)], "p": scale, "view": scale.detach()[1:]})
    assert type(copied["s"][0]) is Labelled
    assert copied["s"][0] is copied["s"][1][0]
    assert copied["s"][0].note == "hi"
    labelled.fill_(9)
    assert not (copied["s"][0] == 9).any()
    assert type(copied["p"]) is Scale
    with torch.no_grad():
        copied["p"].fill_(3.0)
    assert (copied["view"] == 3.0).all()
    assert (scale == 0.0).all()
    pair = TwoTensor(torch.ones(3), torch.zeros(3))
    both = tc.copy(pair)
    pair.a.fill_(7)
    assert type(both) is TwoTensor
    assert both.a.tolist() == [1.0] * 3


def test_a_generator_goes_on_alike():
    generator = torch.Generator().manual_seed(3)
    copied = tc.copy({"g": generator})["g"]
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=copied))


def test_placement_in_one_call():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    half = tc.copy(model, dtype="bfloat16", requires_grad=False)
    assert half[0].weight.dtype == torch.bfloat16
    assert half[1].num_batches_tracked.dtype == torch.int64
    assert not any(p.requires_grad for p in half.parameters())
    image = tc.copy(torch.randn(2, 3, 4, 4), memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)
    flat = torch.randn(10)
    low, high = tc.copy([flat[:5], flat[3:]], dtype=torch.float64)
    low[4] = 7.0
    assert high[1] == 7.0
    assert flat[4] != 7.0


# --- optimizers ----------------------------------------------------------------------------------------------

OPTIMIZERS = [torch.optim.SGD, torch.optim.AdamW, torch.optim.LBFGS, torch.optim.Adafactor, torch.optim.RMSprop]


def step(model, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(1, 3)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


@pytest.mark.parametrize("swapped", [False, True], ids=["model first", "optimizer first"])
@pytest.mark.parametrize("cls", OPTIMIZERS, ids=lambda cls: cls.__name__)
def test_an_optimizer_comes_with_its_model(cls, swapped):
    model = nn.Linear(3, 3)
    optimizer = cls(model.parameters(), lr=0.1)
    step(model, optimizer)
    pair = (optimizer, model) if swapped else (model, optimizer)
    copied = tc.copy(pair, on_escape="error")
    its_model, its_optimizer = copied[::-1] if swapped else copied
    assert its_optimizer.param_groups[0]["params"][0] is its_model.weight
    before = model.weight.detach().clone()
    step(its_model, its_optimizer)
    assert torch.equal(model.weight, before)
    assert not torch.equal(its_model.weight, before)
    step(model, optimizer)
    assert torch.equal(model.weight, its_model.weight)


@pytest.mark.parametrize("wrap", [lambda m, o: o, lambda m, o: [o], lambda m, o: (m.weight, o)], ids="123")
def test_an_optimizer_without_its_parameters_is_refused(wrap):
    model = nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    with pytest.raises(tc.CopyError, match=r"tc\.copy\(\(model, optimizer\)\)"):
        tc.copy(wrap(model, optimizer))
    assert tc.copy(optimizer, share=model.parameters()).param_groups[0]["params"][0] is model.weight


SCHEDULERS = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    "LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=20),
    "CyclicLR": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.1, 1.0),
    "CosineAnnealingWarmRestarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
}


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS.keys())
def test_a_scheduler_drives_the_copied_optimizer(make, steps):
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = make(optimizer)

    def run(model, optimizer, scheduler, count):
        rates = []
        for _ in range(count):
            step(model, optimizer)
            scheduler.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    run(model, optimizer, scheduler, steps)
    copied = tc.copy((model, optimizer, scheduler), on_escape="error")
    assert copied[2].optimizer is copied[1]
    assert run(*copied, 5) == run(model, optimizer, scheduler, 5)
    assert torch.equal(copied[0].weight, model.weight)


# --- refusals, escapes, threads ------------------------------------------------------------------------------


class Holder:
    """An object with one attribute."""


UNCOPYABLE = {
    "lock": threading.Lock,
    "socket": socket.socket,
    "generator": lambda: (x for x in ()),
    "module": lambda: threading,
    "stream": lambda: torch.Stream("cpu"),
}


@pytest.mark.parametrize("make", UNCOPYABLE.values(), ids=UNCOPYABLE.keys())
def test_what_cannot_be_copied_is_named_with_its_path(make):
    holder = Holder()
    holder.x = make()
    try:
        with pytest.raises(tc.CopyError, match=r"obj\['a'\]\[1\]\.x.*share=") as caught:
            tc.copy({"a": [torch.ones(3), holder]})
        assert isinstance(caught.value, (copy.Error, TypeError))
        shared = tc.copy({"a": [torch.ones(3), holder]}, share=(holder.x,))
        assert shared["a"][1].x is holder.x
        assert shared["a"][1] is not holder
    finally:
        getattr(holder.x, "close", lambda: None)()


def test_a_way_back_to_the_source_is_told():
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, result: result + model.weight.sum() * 0)
    with pytest.warns(tc.EscapeWarning, match="closure") as caught:
        tc.copy(model)
    assert caught[0].filename == __file__
    with pytest.raises(tc.EscapeError, match="weight"):
        tc.copy(model, on_escape="error")
    tc.copy(model, on_escape="ignore")


class Doubled:
    """Copies one tensor by `copy.deepcopy` and one by `tc.copy`, within one memo."""

    def __init__(self):
        self.t = torch.randn(3)
        self.u = self.t

    def __deepcopy__(self, memo):
        new = Doubled.__new__(Doubled)
        new.t = copy.deepcopy(self.t, memo)
        new.u = tc.copy(self.u, memo=memo)
        return new


@pytest.mark.parametrize("value", [(1, 2), [1], {}, torch.ones(2)], ids=lambda v: type(v).__name__)
def test_what_the_memo_has_for_a_value_is_taken(value):
    other = object()
    assert copy.deepcopy({"a": value}, {id(value): other})["a"] is other
    assert tc.copy({"a": value}, memo={id(value): other})["a"] is other


@pytest.mark.parametrize("make", [tc.copy, copy.deepcopy], ids=["tc.copy", "copy.deepcopy"])
@pytest.mark.parametrize("order", [("t", "d"), ("d", "t")], ids="".join)
def test_nested_calls_share_one_memo(make, order):
    doubled = Doubled()
    source = {"t": doubled.t, "d": doubled}
    copied = make({key: source[key] for key in order})
    assert copied["d"].t is copied["t"] is copied["d"].u
    assert torch.equal(copied["t"], doubled.t)
    doubled.t.fill_(8.0)
    assert not (copied["t"] == 8.0).any()


def test_four_threads_copy_one_model():
    model = nn.Sequential(*(nn.Linear(30, 30) for _ in range(20)))
    copies, start = [None] * 8, threading.Barrier(4)

    def work(number):
        start.wait()
        copies[number] = tc.copy(model)
        copies[number + 4] = tc.fork(model)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for copied in copies:
        assert_independent(model, copied)


BAD_OPTIONS = {
    "graph": {"graph": "clone"},
    "memory": {"memory": "mine"},
    "device": {"device": "nowhere"},
    "dtype": {"dtype": "int8"},
    "memory_format": {"memory_format": "channels_last"},
    "requires_grad": {"requires_grad": "yes"},
    "grad": {"grad": 1},
    "share": {"share": nn.Linear},
    "on_escape": {"on_escape": "raise"},
    "memo": {"memo": []},
    "memory='lazy'": {"memory": "lazy", "dtype": torch.float64},
    "device=True": {"device": True},
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_a_bad_option_is_one_clear_line(options):
    with pytest.raises(tc.InputError) as caught:
        tc.copy(torch.ones(2), **options)
    assert "\n" not in str(caught.value)
    assert next(iter(options)) in str(caught.value)


@pytest.mark.parametrize("options", [{"n": -1}, {"n": True}, {"memory": "own"}, {"colour": 1}], ids=str)
def test_a_bad_fork_is_one_clear_line(options):
    with pytest.raises(tc.InputError, match=next(iter(options))):
        tc.fork(torch.ones(2), **options)


@pytest.mark.parametrize("option", ["grad", "pin_memory", "non_blocking"])
@pytest.mark.parametrize("value", [0, None, "", []], ids=repr)
def test_an_option_that_is_no_bool_is_one_clear_line(option, value):
    source = torch.ones(2)
    for call in (tc.copy, tc.fork):
        with pytest.raises(tc.InputError, match=f"`{option}` must be"):
            call(source, **{option: value})


class Slotted:
    __slots__ = ("held",)


class Restored:
    def __setstate__(self, state):
        self.__dict__.update(state)


def _slotted(x):
    new = Slotted()
    new.held = x
    return new


def _restored(x):
    new = Restored()
    new.held = x
    return new


NESTS = {
    "list": lambda x: [x],
    "dict": lambda x: {"held": x},
    "tuple": lambda x: (x,),
    "deque": lambda x: collections.deque([x]),
    "defaultdict": lambda x: collections.defaultdict(list, held=x),
    "list of a dict": lambda x: [{"held": x}],
    "slots": _slotted,
    "__setstate__": _restored,
    "module": lambda x: nn.Sequential() if isinstance(x, torch.Tensor) else nn.Sequential(x),
}


def _depth(call, nest):
    """How deep a nest may be for the call, by halving."""
    low, high = 1, 600
    while low < high:
        middle = (low + high + 1) // 2
        nested = torch.ones(1)
        for _ in range(middle):
            nested = nest(nested)
        try:
            call(nested)
        except RecursionError:
            high = middle - 1
        else:
            low = middle
    return low


@pytest.mark.parametrize("name", NESTS)
def test_it_goes_as_deep_as_deepcopy(name):
    limit = sys.getrecursionlimit()
    assert _depth(tc.copy, NESTS[name]) >= _depth(copy.deepcopy, NESTS[name])
    assert sys.getrecursionlimit() == limit


def test_what_has_no_end_is_a_recursion_error():
    class Endless:
        def __reduce__(self):
            return Endless, (), {"next": Endless()}

    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        tc.copy(Endless())
    assert sys.getrecursionlimit() == limit
    copied = tc.copy([torch.ones(2)])  # the next one is none the worse
    assert copied[0].tolist() == [1, 1]
