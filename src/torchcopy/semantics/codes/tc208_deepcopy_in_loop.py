"""TC208: `copy.deepcopy` of tensors in a training loop."""

from .code import Code, InSource

_MODEL = """\
model = nn.Sequential(nn.Linear(999, 999), nn.Linear(999, 1))
model[0].requires_grad_(False)  # frozen: 4 MB that never change
"""
_STEPS = """\
for _ in range(3):
    with torch.no_grad():
        model[1].weight.add_(1)  # stands for an optimizer's step
"""

CODE = Code(
    code="TC208",
    name="deepcopy-in-loop",
    title="`copy.deepcopy` of tensors in a hot loop",
    story="""\
`copy.deepcopy(model.state_dict())` is a right copy, and a slow one. It visits every Python object, allocates
new memory for every tensor each time, and copies all bytes, also those that have not changed since the last
time.

PyTorch says nothing: it is asked for one tensor after the other.

To see the time, put `time.perf_counter()` around it. An audit counts the calls, the bytes and the time.

`tc.copy(x)` makes the same copy, with all tensors copied together. `tc.History` keeps snapshots: into memory
that is there already, or, with `mode="lazy"`, without any memory until somebody writes. `torchcopy bench
--model` times these on your model.""",
    wrong="import copy\n\nimport torch\nfrom torch import nn\n\n"
    + _MODEL
    + "kept = []\n"
    + _STEPS
    + """\
    kept.append(copy.deepcopy(model.state_dict()))
addresses = {state["0.weight"].data_ptr() for state in kept}
assert len(addresses) == 3  # the frozen 4 MB, three times
""",
    right="import torch\nfrom torch import nn\n\nimport torchcopy as tc\n\n"
    + _MODEL
    + 'history = tc.History(model=model, mode="lazy", rng=False)\n'
    + _STEPS
    + """\
    history.take()
assert history.nbytes < 20_000  # only what has changed since
old, new = (history[i].state_dict("model")["1.weight"] for i in (0, 2))
assert torch.equal(old + 2, new)
""",
    fix="`tc.History` for states to go back to, `tc.copy` for a copy to work with.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/149320",
        "https://github.com/pytorch/pytorch/issues/25892",
    ),
    in_source=InSource(
        sees="""\
`copy.deepcopy` of a model, or of a `state_dict()`, in a loop in which an optimizer takes steps, or in a hook
that such a loop calls: `on_epoch_end`.

Left alone: before and after the loop, in one round alone, layers of a stack, tests, and a loop over folds or
seeds, each of which is a training of its own. It is rewritten only where the file imports torchcopy, and with
`--unsafe-fixes`.""",
        before="""\
for epoch in range(epochs):
    loss = train(model, optimizer)
    loss.backward()
    states.append(copy.deepcopy(model.state_dict()))
""",
        after="""\
history = tc.History(model=model, mode="lazy")
for epoch in range(epochs):
    loss = train(model, optimizer)
    loss.backward()
    history.take()
""",
        setup="import copy\n\n",
    ),
)
