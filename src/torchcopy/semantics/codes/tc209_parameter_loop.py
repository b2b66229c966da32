"""TC209: a loop in Python over parameters that one call would do."""

from .code import Code, InSource

_AVERAGE = """\
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
average = copy.deepcopy(model)
model(torch.randn(8, 3))  # moves the running mean of the norm
version = average[0].weight._version
"""

CODE = Code(
    code="TC209",
    name="parameter-loop",
    title="A Python loop averages or copies parameters one by one",
    story="""\
A moving average of weights (EMA, Polyak) written as a loop calls one or two operations for each parameter.
`mul_` and then `add_` write every tensor twice. With many small parameters the time is that of the calls, not
of the bytes.

Such a loop over `parameters()` leaves out the buffers, and a loop that uses `zip` stops silently at the end of
the shorter side.

PyTorch says nothing: each operation is right.

`tc.lerp_(average, model, weight)` takes both by name, writes each tensor once, many in one call, averages the
buffers too, and refuses what does not fit before it writes anything. `tc.copy_(target, model)` does the same
for a plain copy; `tc.EMA` keeps a moving average.

An audit does not report it: the writes are needed. Only the source shows that a loop makes them.""",
    wrong="import copy\n\nimport torch\n\n"
    + _AVERAGE
    + """\
with torch.no_grad():
    for a, p in zip(average.parameters(), model.parameters()):
        a.mul_(0.99).add_(p, alpha=0.01)
assert average[0].weight._version == version + 2  # written twice
assert not average[1].running_mean.any()  # buffers: left out
""",
    right="import copy\n\nimport torch\n\nimport torchcopy as tc\n\n"
    + _AVERAGE
    + """\
tc.lerp_(average, model, 0.01)
assert average[0].weight._version == version + 1
assert torch.equal(average[1].running_mean, 0.01 * model[1].running_mean)
""",
    fix="`tc.lerp_(average, model, 0.01)` for a moving average, `tc.copy_(target, model)` for a copy.",
    audited=False,
    in_source=InSource(
        sees="""\
A loop over two sets of parameters or buffers, or over the keys of two states, that does nothing but move the
one towards the other, or copy it: `lerp_`, `copy_` of a weighted sum, `mul_` and `add_`, `.data = …`.

Left alone: loops that do more than that, gradients, swaps, copies of some of the names, and `p.data = q.data`,
which copies nothing.""",
        before="""\
for p, q in zip(net.parameters(), target.parameters()):
    q.data.copy_(tau * p.data + (1 - tau) * q.data)
""",
        after="""\
tc.lerp_(target, net, tau)
""",
    ),
)
