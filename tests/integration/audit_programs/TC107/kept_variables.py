"""`keep_vars=True` hands out the parameters themselves: they are loaded into themselves."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start = {"epoch": 0, "model": model.state_dict(keep_vars=True)}  # TC101: taken?  # TC109: taken?
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()  # TC107: written?  # TC101: overwritten?  # TC109: overwritten?
model.load_state_dict(start["model"])  # TC107: restored  # TC101: used?  # TC109: used?
