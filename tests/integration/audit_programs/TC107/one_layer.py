"""One layer of a network is reset to what it was: to itself."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
head = {"weight": model[2].weight.data, "bias": model[2].bias.data}  # TC109: taken?
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()  # TC107: written?  # TC109: overwritten?
model[2].load_state_dict(head)  # TC107: restored  # TC109: used?
