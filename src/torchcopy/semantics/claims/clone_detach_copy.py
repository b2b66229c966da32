"""The Chinese article on `clone`, `detach`, `new_tensor` and `copy_`: its printed results, and what it says."""

from __future__ import annotations

from . import clone_detach_copy_examples as examples
from . import reproductions
from .checks import EVERY, GRAD, Containing, gives, probed
from .examples import GRAD_ON, same_as_clone_detach
from .records import Article, Claim

ARTICLE = Article("clone-detach-copy", "pytorch:对比clone、detach以及copy_等张量复制操作", "Chinese")

_DTYPES = ("float32", "bfloat16", "complex64", "int64", "bool")
_BOTH_ORDERS = ("clone_detach", "detach_clone")

CLAIMS = (
    Claim(
        "clone-detach-copy/clone-keeps-shape-dtype-device",
        "`clone()` returns a tensor of the same shape, dtype and device.",
        probed("clone", {"values_kept": True, "dtype_kept": True, "device_kept": True}, on=EVERY, dtypes=_DTYPES),
    ),
    Claim(
        "clone-detach-copy/clone-own-memory",
        "`clone()` shares no memory with its source.",
        probed("clone", {"shares_memory": False}, on=EVERY, dtypes=_DTYPES),
    ),
    Claim(
        "clone-detach-copy/clone-in-graph",
        "Gradients go back through a clone to the source.",
        probed("clone", {"graph": True}, on=GRAD),
    ),
    Claim(
        "clone-detach-copy/clone-prints-node",
        "A clone prints with `grad_fn=<CloneBackward>`.",
        gives(
            examples.printed, {"`print(a.clone())`": Containing("grad_fn=<CloneBackward>")}, also=(examples.RAN_ON,)
        ),
        reproductions.NODE_NAME,
    ),
    Claim(
        "clone-detach-copy/clone-intermediate",
        "A clone is an intermediate result, not a leaf.",
        gives(examples.printed, {"the clone is a leaf": False}, also=("`print(a.clone())`", examples.RAN_ON)),
    ),
    Claim(
        "clone-detach-copy/clone-identity",
        "`clone()` may be seen as an identity mapping: values and gradients pass unchanged.",
        probed("clone", {"values_kept": True, "gradient_correct": True}, on=GRAD),
    ),
    Claim(
        "clone-detach-copy/gradient-first",
        "Gradient sums: after `y.backward()`, `a.grad` is 2.",
        gives(examples.gradient_sums, {"`a.grad` after `y.backward()`": 2.0}),
    ),
    Claim(
        "clone-detach-copy/gradient-sum",
        "Gradient sums: `z.backward()`, by way of the clone, adds 3 to the source: `a.grad` is then 5.",
        gives(examples.gradient_sums, {"`a.grad` after `z.backward()`": 5.0}),
    ),
    Claim(
        "clone-detach-copy/gradient-of-clone",
        "Gradient sums: the clone itself, being intermediate, keeps no gradient: `a_.grad` is `None`.",
        gives(examples.gradient_sums, {"`a_.grad` after `z.backward()`": "None"}),
    ),
    Claim(
        "clone-detach-copy/clone-of-no-grad",
        "If only the clone requires grad, nothing flows back to the source: `a.grad` is `None`.",
        gives(examples.grad_switched_on, {"`a.grad`": "None"}),
    ),
    Claim(
        "clone-detach-copy/clone-of-no-grad-own",
        "The clone then has a gradient of its own: `a_.grad` is 2.",
        gives(examples.grad_switched_on, {"`a_.grad`": 2.0}),
    ),
    Claim(
        "clone-detach-copy/clone-example-source",
        "After `a.data *= 3` and `a_ += 1` the source prints `tensor(3., requires_grad=True)`.",
        gives(examples.clone_written, {"`print(a)`": "tensor(3., requires_grad=True)"}),
    ),
    Claim(
        "clone-detach-copy/clone-example-clone",
        "The clone then prints 2, and its `grad_fn` has become an addition.",
        gives(examples.clone_written, {"`print(a_)`": Containing("tensor(2., grad_fn=<AddBackward0>)")}),
    ),
    Claim(
        "clone-detach-copy/detach-keeps-shape-dtype-device",
        "`detach()` returns a tensor of the same shape, dtype and device.",
        probed("detach", {"values_kept": True, "dtype_kept": True, "device_kept": True}, on=EVERY, dtypes=_DTYPES),
    ),
    Claim(
        "clone-detach-copy/detach-shares-memory",
        "`detach()` shares memory with its source.",
        probed("detach", {"shares_memory": True}, on=EVERY, dtypes=_DTYPES),
    ),
    Claim(
        "clone-detach-copy/detach-no-grad",
        "`detach()` leaves the graph: `requires_grad` is `False`, and no gradient is computed.",
        probed("detach", {"requires_grad": False, "graph": False}),
    ),
    Claim(
        "clone-detach-copy/detach-prints",
        "A detached `float64` scalar prints without a `grad_fn`, as `tensor(1., …, dtype=torch.float64)`.",
        gives(
            examples.printed,
            {"it prints as `tensor(1.)` with its device and dtype": True},
            also=("`print(a.detach())`", examples.RAN_ON),
        ),
    ),
    Claim(
        "clone-detach-copy/detach-example-none",
        "A detached tensor has no gradient at first: `a_.grad` is `None`.",
        gives(examples.detached_and_switched_on, {"`a_.grad` at first": "None"}),
    ),
    Claim(
        "clone-detach-copy/detach-example-own",
        "Made to require grad, it gets a gradient of its own from `z = a_ * 3`: 3.",
        gives(examples.detached_and_switched_on, {"`a_.grad` after both": 3.0}),
    ),
    Claim(
        "clone-detach-copy/detach-example-source",
        "The source's gradient has nothing to do with it: `a.grad` stays 2.",
        gives(examples.detached_and_switched_on, {"`a.grad` after both backward passes": 2.0}),
    ),
    Claim(
        "clone-detach-copy/detach-example-write",
        "`a_ += 1` on the detached tensor changes the source too: both are 2.",
        gives(
            examples.detached_written,
            {
                "at first": "tensor(1., requires_grad=True) tensor(1.)",
                "after `a_ += 1`": "tensor(2., requires_grad=True) tensor(2.)",
            },
        ),
    ),
    Claim(
        "clone-detach-copy/detach-example-data-write",
        "`a.data *= 2` on the source changes the detached tensor too: both are 4.",
        gives(examples.detached_written, {"after `a.data *= 2`": "tensor(4., requires_grad=True) tensor(4.)"}),
    ),
    Claim(
        "clone-detach-copy/together-independent",
        "`clone` and `detach` together are a plain copy of values: no memory and no gradient in common.",
        probed(_BOTH_ORDERS, {"values_kept": True, "shares_memory": False, "graph": False}),
    ),
    Claim(
        "clone-detach-copy/order-same-result",
        "Which of the two comes first makes no difference to what is returned.",
        same_as_clone_detach("detach_clone"),
    ),
    Claim(
        "clone-detach-copy/clone-first-is-usual",
        "Of the two orders, `tensor.clone().detach()` is the one to write.",
        gives(
            examples.order,
            {"PyTorch's own warning names `clone().detach()`": True},
            also=(
                "it names `detach().clone()`",
                "node that `clone()` records",
                "node that `detach().clone()` records",
            ),
        ),
        reproductions.PRINT_WARNING,
    ),
    Claim(
        "clone-detach-copy/new-tensor-own-memory",
        "`new_tensor` copies the values: no memory is shared.",
        probed("new_tensor", {"values_kept": True, "shares_memory": False}, on=EVERY, dtypes=_DTYPES),
    ),
    Claim(
        "clone-detach-copy/new-tensor-options",
        "`new_tensor` lets you set `dtype`, `device` and `requires_grad`; by default grad is off.",
        gives(
            examples.new_tensor_options,
            {
                "with `dtype=torch.float16`": "torch.float16",
                "with `device=` elsewhere it is there": True,
                "with `requires_grad=True`": True,
                "without options, `dtype` is that of the tensor": True,
                "without options, `requires_grad`": False,
            },
            also=(examples.ELSEWHERE,),
        ),
    ),
    Claim(
        "clone-detach-copy/new-tensor-equals",
        "With its default options, `new_tensor` amounts to `clone().detach()`.",
        same_as_clone_detach("new_tensor"),
    ),
    Claim(
        "clone-detach-copy/new-tensor-grad-equals",
        "With `requires_grad=True` it amounts to `clone().detach().requires_grad_(True)`.",
        same_as_clone_detach("new_tensor_requires_grad", GRAD_ON),
    ),
    Claim(
        "clone-detach-copy/new-tensor-not-recommended",
        "In both cases the detached clone is to be preferred to `new_tensor`.",
        gives(
            examples.new_tensor_warning,
            {"the warning of `new_tensor`": Containing("sourceTensor.detach().clone()")},
        ),
    ),
    Claim(
        "clone-detach-copy/copy-own-memory",
        "`copy_` copies values into the target: no memory is shared.",
        gives(examples.no_sharing, {"target": "tensor([9., 1., 1.])", "source": "tensor([5., 5., 5.])"}),
    ),
    Claim(
        "clone-detach-copy/copy-keeps-dtype",
        "`copy_` keeps the target's dtype.",
        gives(examples.target_kept, {"`int64` target, `float32` source": "torch.int64"}),
    ),
    Claim(
        "clone-detach-copy/copy-keeps-device",
        "`copy_` keeps the target's device.",
        gives(
            examples.target_kept,
            {"target elsewhere, source on the CPU: it stays there": True},
            also=(examples.ELSEWHERE,),
        ),
    ),
    Claim(
        "clone-detach-copy/copy-keeps-requires-grad",
        "`copy_` generally keeps the target's `requires_grad`.",
        gives(
            examples.target_kept,
            {
                "`requires_grad` of an `int64` target after a source that requires grad": False,
                "of a `float32` target after it": False,
                "of a leaf that requires grad, written under `no_grad`": True,
            },
        ),
        reproductions.TARGET_GRAD,
    ),
    Claim(
        "clone-detach-copy/copy-broadcasts",
        "`copy_` broadcasts the source to the target's shape.",
        gives(
            examples.broadcast,
            {
                "`a` after `a.copy_(b)`": "[[7, 8, 9], [7, 8, 9]]",
                "`a.copy_(torch.ones(2))`, which does not fit": Containing("RuntimeError"),
            },
            also=(examples.RAN_ON,),
        ),
    ),
    Claim(
        "clone-detach-copy/copy-into-integers",
        "Copying floats that require grad into an integer tensor gives integers: `[[7, 8, 9], [7, 8, 9]]`.",
        gives(
            examples.broadcast,
            {"`a` after `a.copy_(b)`": "[[7, 8, 9], [7, 8, 9]]", "its dtype": "torch.int64"},
            also=("its `requires_grad`", examples.RAN_ON),
        ),
    ),
)
