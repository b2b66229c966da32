"""TC108: a copied module that still computes with the original's tensors."""

from .code import Code

_COPY = """\
copied = copy.deepcopy(model)
torch.nn.init.ones_(model.weight)
torch.nn.init.zeros_(copied.weight)
"""

CODE = Code(
    code="TC108",
    name="copy-reads-original",
    title="A copied module still reads the original's tensors",
    story="""\
`copy.deepcopy` does not copy functions. A function that a module holds, such as a hook, a wrapped `forward` or
a lambda in an attribute, comes along as it is, and what it refers to is still the original. The copy then has
weights of its own and computes with the other ones; training it changes nothing that it computes.

PyTorch says nothing: to it the copy is a module like any other.

To see it, write to the copy and call it, as below. `tc.copy(model)` makes the same copy and warns, with the
path by which the original is reached.

The linter does not look for it: what a function refers to is known when it runs.""",
    wrong="""\
import copy

import torch

model = torch.nn.Linear(2, 1, bias=False)
plain = model.forward
model.forward = lambda x: plain(x.float())  # `plain` is bound to model
"""
    + _COPY
    + """\
assert copied(torch.ones(1, 2)).item() == 2  # its own weights give 0
""",
    right="""\
import copy

import torch

class Floating(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x.float())  # `self`: the copy, in the copy

model = Floating(2, 1, bias=False)
"""
    + _COPY
    + """\
assert copied(torch.ones(1, 2)).item() == 0
""",
    fix="Put the change into a subclass, or set the function on the copy anew; `tc.copy` tells where a copy still "
    "leads to its source.",
    linted=False,
    threads=(
        "https://github.com/facebookresearch/fairscale/issues/816",
        "https://github.com/cornellius-gp/gpytorch/issues/1360",
        "https://github.com/ndif-team/nnsight/issues/723",
        "https://github.com/huggingface/accelerate/pull/1971",
    ),
)
