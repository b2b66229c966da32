"""Classes of many kinds, as programs write them, for tests that copy their instances."""

import collections
import copy
import dataclasses
import enum
import hashlib
import reprlib

import torch
from torch import Tensor, nn


class Point(collections.namedtuple("Point", "x y")):  # as users write it
    __slots__ = ()


@dataclasses.dataclass(eq=False)
class Record:
    left: object
    right: object


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenRecord:
    left: object
    right: object


@dataclasses.dataclass(slots=True, eq=False)
class SlottedRecord:
    left: object
    right: object


class _Shown:
    """Prints its attributes: a failing test shows the tree."""

    @reprlib.recursive_repr()
    def __repr__(self):
        slots = {"child": self.child} if isinstance(self, Slots) and hasattr(self, "child") else {}
        return f"{type(self).__name__}({slots | self.__dict__})"


class Node(_Shown):
    def __init__(self, *children):
        self.first, self.children = (children[0] if children else None), list(children)


class Slots:
    __slots__ = ("__dict__", "child", "empty")
    __repr__ = _Shown.__repr__


class ListWithName(list):
    name = None


class DictWithName(dict):
    name = None


class Color(enum.Enum):
    RED = 1


class Annotated(Tensor):
    """A tensor subclass that only adds Python."""


class Scale(nn.Parameter):
    """A parameter of another class."""


class Block(nn.Module):
    """A module of parameters, buffers and other attributes."""

    __repr__ = _Shown.__repr__  # PyTorch's own does not end for a module that holds itself

    def __init__(self, tensors, child):
        super().__init__()
        for k, t in enumerate(tensors):
            if isinstance(t, nn.Parameter):
                self.register_parameter(f"parameter{k}", t)
            elif k % 2:
                self.register_buffer(f"buffer{k}", t, persistent=k % 3 == 0)
            else:
                setattr(self, f"tensor{k}", t)
        self.child = child


class Witness(_Shown):
    """Looks at its tensor as soon as it gets it: a copy has to be there by then."""

    def __init__(self, tensor, child):
        self.tensor, self.child = tensor, child

    def __getstate__(self):
        return {"tensor": self.tensor, "child": self.child, "digest": digest(self.tensor)}

    def __setstate__(self, state):
        assert digest(state["tensor"]) == state.pop("digest"), "`__setstate__` sees a tensor that is not filled in"
        self.__dict__.update(state)


class Rebuilt(_Shown):
    """Is rebuilt by its constructor, from its tensor and another object."""

    def __init__(self, tensor, seen=None, child=None):
        assert seen in (None, digest(tensor)), "a constructor sees a tensor that is not filled in"
        self.tensor, self.child = tensor, child

    def __reduce__(self):
        return Rebuilt, (self.tensor, digest(self.tensor)), {"child": self.child}


class ByItsOwn(_Shown):
    """Has a `__deepcopy__`: what is in it is copied by `copy.deepcopy`, and looked at."""

    def __init__(self, tensor, *children):
        self.tensor, self.children = tensor, list(children)

    def __deepcopy__(self, memo):
        new = memo[id(self)] = ByItsOwn(None)
        new.tensor = copy.deepcopy(self.tensor, memo)
        assert digest(new.tensor) == digest(self.tensor), "`__deepcopy__` sees a tensor that is not filled in"
        new.children = copy.deepcopy(self.children, memo)
        return new


class WithState(_Shown):
    """Gives its state as a tuple, and takes it back."""

    def __init__(self, child):
        self.child = child

    def __getstate__(self):
        return (self.child, 3)

    def __setstate__(self, state):
        self.child, _ = state


class WithArguments(tuple):
    """Wants arguments to be made, and keeps another beside."""

    def __new__(cls, tensor, *, child):
        new = super().__new__(cls, (tensor,))
        new.child = child
        return new

    def __getnewargs_ex__(self):
        return (self[0],), {"child": self.child}


def a_function():
    """Kept by reference."""


def digest(t):
    """The values of `t`'s elements in order, as a short text. A copy in a wider dtype has the same."""
    wide = t.detach().double() if t.is_floating_point() else t
    return hashlib.sha1(element_bytes(wide).numpy().tobytes()).hexdigest()[:8]


def element_bytes(t):
    """The bytes of `t`'s elements in order. Equal bytes are equal values, not-a-number included."""
    with torch.no_grad():
        plain = t.detach().as_subclass(Tensor).resolve_conj().resolve_neg()
        return torch.empty(plain.shape, dtype=plain.dtype).copy_(plain).reshape(-1).view(torch.uint8)
