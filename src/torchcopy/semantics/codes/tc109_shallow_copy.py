"""TC109: a shallow copy that was to be a copy of the values."""

from .code import Code, InSource

_STEP = """\
before = target.weight.detach().clone()  # to compare with
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
policy(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""
_POLICY = """\
import copy

import torch

policy = torch.nn.Linear(2, 1)
"""

CODE = Code(
    code="TC109",
    name="shallow-copy",
    title="A shallow copy is used as if it had its own values",
    story="""\
`copy.copy(module)` makes a second module around the same parameters, `copy.copy(tensor)` a second tensor on the
same memory. `list(model.parameters())`, `[p.data for p in …]` and a second name copy no values either. The
target network then moves with the network that is trained, and the "old" parameters are the new ones: their
difference is always zero.

PyTorch says nothing: sharing parameters between modules is a feature, and this looks just like it.

To see it: `target.weight is policy.weight`, or `print(tc.relate(policy, target))`.""",
    wrong=_POLICY
    + "target = copy.copy(policy)  # another module, the same parameters\n"
    + _STEP
    + """\
assert target.weight is policy.weight
assert not torch.equal(target.weight, before)  # it has moved too
""",
    right=_POLICY
    + "target = copy.deepcopy(policy)\n"
    + _STEP
    + """\
assert torch.equal(target.weight, before)
assert not torch.equal(policy.weight, before)
""",
    fix="Copy the values: `tc.copy(module)` or `copy.deepcopy(module)`; "
    "`[p.detach().clone() for p in model.parameters()]`.",
    threads=(
        "https://github.com/datawhalechina/easy-rl/issues/140",
        "https://github.com/DerrickXuNu/dvrl_pytorch/issues/2",
        "https://github.com/zhangj111/astnn/issues/8",
    ),
    in_source=InSource(
        sees="""\
`copy.copy(model)`, a second name such as `target = net`, and lists of live parameters, where the name says that
it was to be kept and the model is trained before it is read. A shallow copy in an attribute, and a target network
or teacher that is evaluated or loaded, are told wherever the training is; so is a moving average of parameters
that begins as those parameters, and is updated in place: there an unsafe fix writes `.clone()`. Told, too, is a
model that rounds of a training put into a list or dict as it is, if that is read when they are over; and an older
model under whose second name the training goes on, `net = old_net`, if it is read after that. TC101 tells of
parameters under other names and in attributes, where they are put back or compared.

Left alone: shallow copies that are for reading; lists of parameters that are trained, clipped or counted; what
was kept before the parameters got other tensors (`p.data = …`); networks that are made anew in each round.""",
        before="""\
target_net = copy.copy(net)
for batch in batches:
    loss(net(batch), target_net(batch)).backward()
    optimizer.step()
""",
        after="""\
target_net = copy.deepcopy(net)
for batch in batches:
    loss(net(batch), target_net(batch)).backward()
    optimizer.step()
""",
        setup="import copy\n\nimport torch\n\n\ndef train(net: torch.nn.Module, batches, optimizer, loss):\n",
    ),
)
