"""TC101: a kept `state_dict()` that follows the training."""

from .code import Code, InSource

_TRAINING = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = model.weight.detach().clone()  # to compare with
{keep}
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
model.load_state_dict(best)
"""

CODE = Code(
    code="TC101",
    name="stale-state-dict",
    title="A kept `state_dict()` changes with the training",
    story="""\
`state_dict()` makes a new dictionary around the live tensors; it copies none of them. The optimizer writes each
step into these tensors. What was kept as the best state is therefore the last one, and loading it restores
nothing.

`.copy()`, `copy.copy(…)`, `dict(…)` and `{k: v.detach() for …}` keep the same tensors. So does `v.cpu()` where
the model is on the CPU already; on a GPU it copies. The `state_dict()` of an optimizer that has taken a step
shares its moments in the same way.

PyTorch says nothing, because sharing is right for a state that is used at once: saved to a file, or loaded into
another model. It cannot know that this one is kept.

To see it, compare addresses: `best["weight"].data_ptr() == model.weight.data_ptr()` is true where nothing was
copied.""",
    wrong=_TRAINING.format(keep="best = model.state_dict()  # the live tensors")
    + """\
assert torch.equal(best["weight"], model.weight)
assert not torch.equal(model.weight, first)  # nothing was restored
""",
    right=_TRAINING.format(keep="best = {k: v.clone() for k, v in model.state_dict().items()}")
    + """\
assert torch.equal(model.weight, first)
""",
    fix="`{k: v.clone() for k, v in model.state_dict().items()}`, or `tc.copy(model.state_dict())`; `tc.History` "
    "keeps the best state by a metric.",
    threads=(
        "https://github.com/pytorch/pytorch/issues/34765",
        "https://github.com/pytorch/pytorch/pull/83104",
        "https://github.com/pytorch/pytorch/issues/196083",
        "https://github.com/pytorch/tutorials/pull/188",
        "https://github.com/WenjieDu/PyPOTS/issues/667",
        "https://github.com/thunlp/OpenKE/pull/131",
    ),
    in_source=InSource(
        sees="""\
A name, attribute or entry of a dict or object that gets `model.state_dict()`, or a shallow copy of one, and is
loaded, saved, returned, or compared with the newer state after the model was trained: by an optimizer's step,
by a call of a function that takes one, in the same project, or by a write of its parameters, all or one
(`model.head.bias.data.zero_()`, `nn.init.normal_(p)`). Methods of one class are read together (one keeps,
one puts back), those it has from classes of other files too, and what a function of the project returns, loads,
compares, or leaves in an object: `stopper.update(loss, model.state_dict())`. So are properties, generators whose
caller keeps what they yield, and calls made before: `undo = partial(model.load_state_dict, state)`. Dicts and
lists of parameters, `{n: p.data for n, p in model.named_parameters()}` or entry by entry, are states too, where a
loop puts them back or compares them. States of several rounds in one list or dict are one and the same. A state
that a thread saves changes while it writes. A `final` or `last` state is told where the model gets another one
before it is saved or returned.

Left alone: states that are loaded or saved at once, that go into another model, or whose entries the program
writes on purpose; parameters that get other tensors (`p.data = …`), not other values; a model that is on a GPU
for sure, where `.cpu()` copies; a first state that the first round replaces, or copies later; a class whose
`state_dict` copies; a fresh optimizer; what is saved or returned where no name (`best`, `initial.pt`), branch or
object that is there to keep it tells that it is an older one.""",
        before="""\
for epoch in range(epochs):
    train(model, optimizer)
    if accuracy(model) > highest:
        best = model.state_dict()
        highest = accuracy(model)
model.load_state_dict(best)
""",
        after="""\
for epoch in range(epochs):
    train(model, optimizer)
    if accuracy(model) > highest:
        best = {k: v.clone() for k, v in model.state_dict().items()}
        highest = accuracy(model)
model.load_state_dict(best)
""",
    ),
)
