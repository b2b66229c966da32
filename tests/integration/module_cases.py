"""How to make and call a module, for tests of every class of `torch.nn`."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to make and call a module.

    Attributes:
        name: as a test's id: the class, and what is special about this one.
        make: builds the module.
        inputs: what to call it with; new tensors each time.
        call: how to call it, where it has no `forward` that returns tensors.
        lazy: whether its first call gives it its parameters.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    call: Callable[..., Any] = lambda module, *inputs: module(*inputs)
    lazy: bool = False

    @property
    def class_name(self) -> str:
        """The class that it stands for."""
        return self.name.split(",")[0]

    def build(self, seed: int = 0) -> nn.Module:
        """The module in training mode, as its constructor leaves it; its values from a fixed seed."""
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lazy modules are new, `Container` is old
            return self.make()

    def run(self, module: nn.Module, seed: int = 0, *, requires_grad: bool = False) -> tuple[Any, list[Tensor]]:
        """The outputs for inputs from a fixed seed, with the same random numbers each time; and the inputs."""
        torch.manual_seed(1000 + seed)
        inputs = self.inputs()
        floating = [x for x in inputs if isinstance(x, Tensor) and x.is_floating_point()]
        for x in floating:
            x.requires_grad_(requires_grad)
        return self.call(module, *inputs), floating


def normal(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    """One tensor of normal random numbers."""
    return lambda: (torch.randn(*shape),)


def normal_pair(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(*shape), torch.randn(*shape))
