"""Some entries of the model's own state_dict are replaced, and all of it loaded: the usual way to load a part."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
pretrained = {"0.weight": torch.randn(8, 4), "0.bias": torch.randn(8), "head.weight": torch.randn(5, 8)}
state = model.state_dict()
state.update({name: value for name, value in pretrained.items() if name in state})
model.load_state_dict(state)
assert torch.equal(model[0].weight, pretrained["0.weight"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(2, 4)).sum().backward()
optimizer.step()
