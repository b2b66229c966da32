"""Each fold shall start from the same weights; what they are taken from is a second name of the model."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(60, 4), torch.randn(60, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
untrained = model  # TC109: taken?
for fold in range(3):
    model.load_state_dict(untrained.state_dict())  # TC107: restored  # TC109: used?
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(5):
        rows = torch.arange(60) % 3 != fold
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[rows]), y[rows]).backward()
        optimizer.step()  # TC107: written?  # TC109: overwritten?
