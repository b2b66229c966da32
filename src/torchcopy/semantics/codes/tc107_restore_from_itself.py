"""TC107: `load_state_dict` is given the module's own tensors."""

from .code import Code

_SWAP = """\
import torch

model = torch.nn.Linear(2, 1)
averaged = {{k: torch.zeros_like(v) for k, v in model.state_dict().items()}}
trained = model.weight.detach().clone()  # to compare with
{keep}
model.load_state_dict(averaged)  # evaluate with these …
result = model.load_state_dict(backup)  # … and go back
"""

CODE = Code(
    code="TC107",
    name="restore-from-itself",
    title="A state is restored from the module's own tensors",
    story="""\
`load_state_dict` copies each value into the tensors that the module has. If it is given these very tensors,
each is copied onto itself. So it is after `backup = model.state_dict()`: loading other weights overwrites the
backup too, and loading the backup changes nothing. `target.load_state_dict(target.state_dict())`, where the
weights of another network were meant, is the same mistake.

PyTorch says nothing: names and shapes match perfectly, and "All keys matched successfully" comes back.

To see it, compare an address before loading: `backup["weight"].data_ptr() == model.weight.data_ptr()`.

The linter does not look for it, because whether two tensors are the same memory is known when the program runs;
the state that is kept without a copy it reports as TC101.""",
    wrong=_SWAP.format(keep="backup = model.state_dict()  # the model's own tensors")
    + """\
assert "All keys matched" in str(result)
assert torch.equal(model.weight, averaged["weight"])
assert not torch.equal(model.weight, trained)  # the training is lost
""",
    right=_SWAP.format(keep="backup = {k: v.clone() for k, v in model.state_dict().items()}")
    + """\
assert "All keys matched" in str(result)
assert torch.equal(model.weight, trained)
""",
    fix="Copy before overwriting: `backup = tc.copy(model.state_dict())`; `tc.EMA` lends averaged weights to a "
    "model and gives its own back.",
    linted=False,
    threads=(
        "https://github.com/thesouther/MARL/issues/8",
        "https://github.com/dvgodoy/PyTorchStepByStep/pull/28",
    ),
)
