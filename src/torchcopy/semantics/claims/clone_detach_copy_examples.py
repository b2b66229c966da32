"""The examples of the Chinese article, as it runs them, and what they give here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from .checks import outcome
from .examples import elsewhere, nodes_recorded, quoted_device, warning_text

RAN_ON, ELSEWHERE = "run on (the article: cuda)", "elsewhere is"


def _item(t: Tensor | None) -> object:
    return "None" if t is None else t.item()


# --- programs ------------------------------------------------------------------------------------------------


def printed() -> Mapping[str, object]:
    """How a clone and a detached tensor print."""
    a = torch.tensor(1.0, requires_grad=True, device=quoted_device(), dtype=torch.float64)
    place = f", device='{a.device}'" if a.is_cuda else ""
    expected = f"tensor(1.{place}, dtype=torch.float64)"
    clone, detached = a.clone(), a.detach()
    return {
        "`print(a.clone())`": str(clone),
        "the clone is a leaf": clone.is_leaf,
        "`print(a.detach())`": str(detached),
        "it prints as `tensor(1.)` with its device and dtype": str(detached) == expected,
        RAN_ON: a.device.type,
    }


def gradient_sums() -> Mapping[str, object]:
    """The gradients of `a` and its clone, after each of two backward passes."""
    a = torch.tensor(1.0, requires_grad=True)
    y = a**2
    a_ = a.clone()
    z = a_ * 3
    y.backward()  # type: ignore[no-untyped-call]
    first = _item(a.grad)
    z.backward()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        of_clone = _item(a_.grad)
    return {
        "`a.grad` after `y.backward()`": first,
        "`a_.grad` after `z.backward()`": of_clone,
        "`a.grad` after `z.backward()`": _item(a.grad),
    }


def grad_switched_on() -> Mapping[str, object]:
    """The gradients where only the clone requires grad."""
    a = torch.tensor(1.0)
    a_ = a.clone()
    a_.requires_grad_()
    y = a_**2
    y.backward()  # type: ignore[no-untyped-call]
    return {"`a.grad`": _item(a.grad), "`a_.grad`": _item(a_.grad)}


def clone_written() -> Mapping[str, object]:
    """What prints after writes to the source and to its clone."""
    a = torch.tensor(1.0, requires_grad=True)
    a_ = a.clone()
    a.data *= 3
    a_ += 1
    return {"`print(a)`": str(a), "`print(a_)`": str(a_)}


def detached_and_switched_on() -> Mapping[str, object]:
    """The gradients where the detached tensor is made to require grad."""
    a = torch.tensor(1.0, requires_grad=True)
    y = a**2
    a_ = a.detach()
    before = _item(a_.grad)
    a_.requires_grad_()
    z = a_ * 3
    y.backward()  # type: ignore[no-untyped-call]
    z.backward()  # type: ignore[no-untyped-call]
    return {
        "`a_.grad` at first": before,
        "`a.grad` after both backward passes": _item(a.grad),
        "`a_.grad` after both": _item(a_.grad),
    }


def detached_written() -> Mapping[str, object]:
    """What prints after writes to the source and to the detached tensor."""
    a = torch.tensor(1.0, requires_grad=True)
    a_ = a.detach()
    found = {"at first": f"{a!s} {a_!s}"}
    a_ += 1
    found["after `a_ += 1`"] = f"{a!s} {a_!s}"
    a.data *= 2
    found["after `a.data *= 2`"] = f"{a!s} {a_!s}"
    return found


def new_tensor_options() -> Mapping[str, object]:
    """What becomes of the options of `new_tensor`."""
    x = torch.ones(2, dtype=torch.float64)
    place = elsewhere()
    made = x.new_tensor([1.0, 2.0], dtype=torch.float16, device=place, requires_grad=True)
    plain = x.new_tensor([1.0, 2.0])
    return {
        "with `dtype=torch.float16`": str(made.dtype),
        "with `device=` elsewhere it is there": made.device.type == place,
        ELSEWHERE: place,
        "with `requires_grad=True`": made.requires_grad,
        "without options, `dtype` is that of the tensor": plain.dtype == x.dtype,
        "without options, `requires_grad`": plain.requires_grad,
    }


def target_kept() -> Mapping[str, object]:
    """What a target of `copy_` keeps, whatever the source is."""
    integers = torch.zeros(3, dtype=torch.int64)
    integers.copy_(torch.tensor([1.0, 2.0, 3.0]))
    place = elsewhere()
    away = torch.zeros(3, device=place)
    away.copy_(torch.ones(3))
    source = torch.tensor([7.0, 8.0, 9.0], requires_grad=True)
    floats = torch.zeros(3)
    floats.copy_(source)
    whole = torch.zeros(3, dtype=torch.int64)
    whole.copy_(source)
    leaf = torch.zeros(3, requires_grad=True)
    with torch.no_grad():
        leaf.copy_(torch.ones(3))
    return {
        "`int64` target, `float32` source": str(integers.dtype),
        "target elsewhere, source on the CPU: it stays there": away.device.type == place,
        ELSEWHERE: place,
        "`requires_grad` of an `int64` target after a source that requires grad": whole.requires_grad,
        "of a `float32` target after it": floats.requires_grad,
        "of a leaf that requires grad, written under `no_grad`": leaf.requires_grad,
    }


def no_sharing() -> Mapping[str, object]:
    """Target and source of `copy_` after a write to each."""
    target, source = torch.zeros(3), torch.ones(3)
    target.copy_(source)
    source.fill_(5)
    target[0] = 9
    return {"target": str(target), "source": str(source)}


def broadcast() -> Mapping[str, object]:
    """The article's last example: floats that require grad into a matrix of integers."""
    device = quoted_device()
    a = torch.tensor([[1, 2, 3], [4, 5, 6]], device=device)
    b = torch.tensor([7.0, 8.0, 9.0], requires_grad=True)
    a.copy_(b)
    return {
        "`a` after `a.copy_(b)`": str(a.tolist()),
        "its dtype": str(a.dtype),
        "its `requires_grad`": a.requires_grad,
        RAN_ON: device,
        "`a.copy_(torch.ones(2))`, which does not fit": outcome(lambda: a.copy_(torch.ones(2))),
    }


def new_tensor_warning() -> Mapping[str, object]:
    """What `new_tensor` warns when it is given a tensor."""
    t = torch.ones(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        t.new_tensor(t)
    return {"the warning of `new_tensor`": str(caught[0].message) if caught else "none"}


def order() -> Mapping[str, object]:
    """What speaks for either order of `clone` and `detach`."""
    text = warning_text()
    return {
        "PyTorch's own warning names `clone().detach()`": "sourceTensor.clone().detach()" in text,
        "it names `detach().clone()`": "sourceTensor.detach().clone()" in text,
        **nodes_recorded(),
    }
