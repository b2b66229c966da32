"""Weights of another layout are written through the state_dict, which is then read to check them."""

import torch
from torch import nn

torch.manual_seed(0)
source = {"dense.kernel": torch.randn(4, 8), "dense.bias": torch.randn(8)}
model = nn.Linear(4, 8)
state = model.state_dict()
state["weight"].copy_(source["dense.kernel"].T)
state["bias"].copy_(source["dense.bias"])
assert torch.equal(state["weight"], source["dense.kernel"].T)
print(model(torch.ones(1, 4)).sum().item())
