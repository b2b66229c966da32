"""TC105: a tensor that is kept for its value keeps its graph."""

from .code import Code, InSource

_LOOP = """\
import torch

w = torch.ones(1000, requires_grad=True)
losses = []
for step in range(3):
    loss = (w * step).exp().mean()
    loss.backward()
    losses.append({kept})
"""

CODE = Code(
    code="TC105",
    name="kept-graph",
    title="Tensors kept across iterations keep their graphs",
    story="""\
A tensor with a `grad_fn` keeps its graph alive. A list of losses keeps the graph of every step; a running sum
`total = total + loss` makes them one graph that grows with each step.

Where `backward()` is not called, as in an evaluation without `torch.no_grad()`, such a graph holds every
activation of its batch: a memory leak that ends in "out of memory". After `backward()` these are freed, and the
nodes of the graph stay.

PyTorch says nothing, because a sum of losses may well be meant for `backward()`. It cannot know that only the
number is wanted.

To see it, look at what was kept: `losses[0].grad_fn` is `None` where no graph hangs on it.""",
    wrong=_LOOP.format(kept="loss")
    + """\
nodes, node = [], losses[0].grad_fn
while node.next_functions:
    nodes.append(node.name())
    node = node.next_functions[0][0]
assert nodes == ["MeanBackward0", "ExpBackward0", "MulBackward0"]
""",
    right=_LOOP.format(kept="loss.detach()")
    + """\
assert all(loss.grad_fn is None for loss in losses)
assert torch.stack(losses).mean() > 1  # the values are there
""",
    fix="Keep the value: `loss.detach()`, or `loss.item()` where the wait for the device does not matter; evaluate "
    "under `torch.no_grad()`.",
    threads=(
        "https://github.com/pytorch/pytorch/pull/5251",
        "https://github.com/pytorch/pytorch/issues/17568",
        "https://github.com/dmlc/dgl/issues/5302",
        "https://github.com/jostmey/NakedAttention/issues/1",
    ),
    in_source=InSource(
        sees="""\
A loss that had `backward()` called on it, here or by the caller it is returned to, and that is appended to a
list, joined to a tensor or added up in a loop. Also its summands, and what a function of the project gives:
alone, beside other losses, in a dict or in an object; lists of losses that were stacked; and what a closure
keeps that is given to `optimizer.step`. A meter or callback of the project that is given it and keeps it or
adds it up, and a function that puts it into a dict or list of its caller, are followed; so are losses that a
function computes and puts there itself, or into a list of the file, which it or its caller differentiates in
each round. What Lightning's `training_step` returns is differentiated too. So is told what a model gave, listed
in the round in which `backward()` has gone through the loss that was computed from it: `out` of `criterion(out,
y)`; a figure that is computed beside the loss from the same outputs, in steps that each hand gradients on, as
`mae = (out - y).abs().mean()` or an entropy, also by functions of the project, where the loss shows that the
model is trained; and a residual that a function gives beside its mean square. Of what an unknown function gives
beside the loss, `loss, kl_loss = step(x)`, the parts named as losses are told where another function of the file
asks them for their number: `kl_loss.item()`. A validation in the function that trains is told where it computes
its losses as the training does, of the same model, and nothing may have switched gradients off.

Left alone: `loss.item()`, `loss.detach()`, `float(loss)`; what `backward()` is called on later; sums under
`no_grad`, and those that each round detaches; a `deque` of at most twenty, a list cut to its last entries or
emptied in each round; what each batch of a loader begins anew, though a loop through its parts adds to it; a loop
through the parts of one loss or the tasks of one step, or one that ends with a `break`; an array that it is
written into, as a number, and slots of what the caller gives, which may be one; summands of which nothing tells
that they are tensors, as the number of a schedule; `backward(create_graph=True)`, where the graph is wanted.

The fix is safe: every number stays. `backward()` has freed what that graph had saved, so that a second one
through it raises; only `requires_grad` of what is kept differs, and what is printed of it. Where the value may be
a plain number, which has no `detach`, is given to a meter, or is of a validation, which somebody may have
differentiated, the fix is made with `--unsafe-fixes` only.""",
        before="""\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    total += loss
""",
        after="""\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    total += loss.detach()
""",
    ),
)
