"""What cannot be copied is refused before much memory is taken, wherever in the object it comes."""

import copy
import copyreg
import gc
import logging
import multiprocessing
import socket
import threading
import tracemalloc

import numpy as np
import pytest
import torch
from copying_checks import assert_apart, matched_tensors
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import torchcopy as tc
from torchcopy.semantics.allocation import measure_allocation

LARGE = 1 << 20  # elements, of 4 bytes
MOST_BYTES = 3 << 20  # one megabyte may be taken early, twice that by a wider dtype


class SetsItsState:
    def __init__(self, *held):
        self.held = held

    def __setstate__(self, state):
        assert all(t.numel() for t in state["held"] if isinstance(t, torch.Tensor))
        self.__dict__.update(state)


class CopiesItself:
    def __init__(self, *held):
        self.held = list(held)

    def __deepcopy__(self, memo):
        return CopiesItself(*copy.deepcopy(self.held, memo))


class CopyingModule(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def __deepcopy__(self, memo):
        new = CopyingModule(1)
        new.weight = copy.deepcopy(self.weight, memo)
        return new


class IsMadeOf:
    def __init__(self, t):
        self.t = t

    def __reduce__(self):
        return IsMadeOf, (self.t,)


def array_of_objects():
    array = np.empty(1, dtype=object)
    array[0] = torch.zeros(LARGE)
    return array


FIRST = {
    "nothing large": lambda: torch.zeros(3),
    "tensor": lambda: torch.zeros(LARGE),
    "tuple of a tensor": lambda: (torch.zeros(LARGE),),
    "set of a tensor": lambda: {torch.zeros(LARGE)},
    "views": lambda: torch.zeros(2 * LARGE).split(LARGE),
    "parts of a storage": lambda: [(t[:1000], t[-1000:]) for t in [torch.zeros(LARGE)]],
    "model": lambda: nn.Linear(1024, 1024),
    "model with its optimizer": lambda: (lambda m: (m, torch.optim.SGD(m.parameters())))(nn.Linear(1024, 1024)),
    "__setstate__": lambda: SetsItsState(torch.zeros(LARGE)),
    "many small __setstate__": lambda: [SetsItsState(torch.zeros(LARGE // 16)) for _ in range(40)],
    "constructor": lambda: IsMadeOf(torch.zeros(LARGE)),
    "__deepcopy__": lambda: CopiesItself(torch.zeros(LARGE)),
    "__deepcopy__ of many small": lambda: [CopiesItself(torch.zeros(LARGE // 16)) for _ in range(40)],
    "__deepcopy__ of views": lambda: CopiesItself(*torch.zeros(2 * LARGE).split(LARGE)),
    "__deepcopy__ of a module": lambda: CopyingModule(LARGE),
    "sparse tensor": lambda: (torch.ones(LARGE).to_sparse(),),
    "subclass with its own clone": lambda: TwoTensor(torch.zeros(LARGE), torch.zeros(LARGE)),
    "attribute of a tensor": lambda: with_attribute(torch.zeros(3), (torch.zeros(LARGE),)),
    "gradient": lambda: with_gradient(torch.zeros(LARGE, requires_grad=True)),
    "array": lambda: np.zeros(LARGE),
    "many small arrays": lambda: [np.zeros(LARGE // 16) for _ in range(40)],
    "array of objects": array_of_objects,
}


def with_attribute(t, value):
    t.note = value
    return t


def with_gradient(t):
    t.grad = torch.ones_like(t)
    return (t,)


CULPRITS = {
    "lock": threading.Lock,
    "socket": socket.socket,
    "generator": lambda: (k for k in ()),
    "stream": lambda: torch.Stream("cpu"),
    "module": lambda: threading,
    "lock between processes": multiprocessing.Lock,
    "pipe": lambda: multiprocessing.Pipe()[0],
}


def refused(obj, options):
    """The most bytes that were held at one moment while `tc.copy` refused `obj`."""

    def attempt():
        with pytest.raises(tc.CopyError, match="share="):
            tc.copy(obj, **options)

    tracemalloc.start()  # NumPy's memory is Python's
    try:
        measured = measure_allocation(attempt, torch.device("cpu"))[1]
        return measured.peak_bytes + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("options", [{}, {"grad": True}, {"dtype": torch.float64}, {"memory": "lazy"}], ids=str)
@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
def test_no_large_memory_is_taken_before_a_refusal(first, options):
    lock, held = threading.Lock(), first()
    assert refused({"first": held, "then": [1, {"last": lock}]}, options) < MOST_BYTES


@pytest.mark.parametrize("make", CULPRITS.values(), ids=CULPRITS.keys())
def test_each_culprit_is_seen_behind_a_setstate(make):
    culprit = make()
    try:
        obj = [SetsItsState(torch.zeros(LARGE)), SetsItsState(culprit)]
        assert refused(obj, {}) < MOST_BYTES
        shared = tc.copy(obj, share=(culprit,))
    finally:
        getattr(culprit, "close", lambda: None)()
    assert shared[1].held[0] is culprit
    assert_apart(matched_tensors(obj, shared, shared=(culprit,))[0])


def test_a_graph_that_is_kept_is_refused_before_it_is_copied():
    leaf = torch.zeros(LARGE, requires_grad=True)
    obj = [SetsItsState(leaf * 1), leaf, threading.Lock()]
    assert refused(obj, {"graph": "keep"}) < MOST_BYTES


def test_what_has_no_name_to_import_is_shared_by_its_path():
    numbers = (n for n in range(3))
    source = {"w": torch.ones(2), "left": [numbers]}
    with pytest.raises(tc.CopyError, match=r"share=\(obj\['left'\]\[0\],\)`"):
        tc.copy(source)
    copied = tc.copy(source, share=(source["left"][0],))
    source["w"].zero_()
    assert copied["left"][0] is numbers
    assert copied["w"].tolist() == [1, 1]


class WithLock:
    """Holds what cannot be copied; its classes below leave that out of their copies."""

    def __init__(self):
        self.lock, self.value = threading.Lock(), torch.ones(2)

    def __setstate__(self, state):
        self.__init__()
        self.value = state["value"]


class StateWithout(WithLock):
    def __getstate__(self):
        return {"value": self.value}


class CopiedWithout(WithLock):
    def __deepcopy__(self, memo):
        new = CopiedWithout()
        new.value = copy.deepcopy(self.value, memo)
        return new


class ReducedWithout(WithLock):
    def __reduce__(self):
        return ReducedWithout, (), {"value": self.value}


class RegisteredWithout(WithLock):
    pass


copyreg.pickle(RegisteredWithout, lambda x: (RegisteredWithout, (), {"value": x.value}))


class ModuleWithout(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock, self.value = threading.Lock(), nn.Parameter(torch.zeros(LARGE))

    def __getstate__(self):
        return self.__dict__ | {"lock": None}


def module_with_logger():
    module = nn.Linear(1024, 1024)
    module.logger = logging.getLogger("of a module")
    if not module.logger.handlers:
        module.logger.addHandler(logging.StreamHandler())
    return module


@pytest.mark.parametrize("call", [tc.copy, tc.fork], ids=["copy", "fork"])
@pytest.mark.parametrize("order", [1, -1], ids=["large first", "large last"])
@pytest.mark.parametrize(
    "make",
    [StateWithout, CopiedWithout, ReducedWithout, RegisteredWithout, ModuleWithout, module_with_logger],
    ids=lambda make: make.__name__,
)
def test_what_leaves_out_what_cannot_be_copied_is_copied(make, order, call):
    source = [SetsItsState(torch.zeros(LARGE)), (torch.zeros(LARGE),), make()][::order]
    copied = call(source)
    one, other = (
        tensor_of(next(x for x in each if type(x) is type(source[-1 if order == 1 else 0])))
        for each in (source, copied)
    )
    with torch.no_grad():
        before = other.clone()
        one.add_(1)
        assert torch.equal(other, before)
        other.sub_(2)
        assert torch.equal(one, before + 1)


def tensor_of(x):
    return getattr(x, "value", None) if hasattr(x, "value") else x.weight


def test_a_lock_in_what_leaves_it_in_is_still_refused_first():
    class Keeps(WithLock):
        def __getstate__(self):
            return self.__dict__

    source = [SetsItsState(torch.zeros(LARGE)), Keeps()]
    with pytest.raises(tc.CopyError, match=r"obj\[1\]\.lock"):
        tc.copy(source)


def test_what_stands_in_a_dict_that_the_collector_does_not_track_has_a_path():
    array = np.empty(1, dtype=object)
    array[0] = threading.Lock()
    source = {"a": array}
    assert not gc.is_tracked(source)
    with pytest.raises(tc.CopyError, match=r"`obj\['a'\]"):
        tc.copy([SetsItsState(torch.zeros(LARGE)), source][1])
    model = nn.Linear(2, 2)
    array[0] = model
    optimizer, copied = tc.copy((torch.optim.SGD(model.parameters()), source))
    assert optimizer.param_groups[0]["params"][0] is copied["a"][0].weight
