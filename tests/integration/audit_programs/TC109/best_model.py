"""The best model is remembered by name; it goes on being trained."""

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(64, 4), torch.randn(64, 1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
best_model, lowest = None, float("inf")
for _epoch in range(6):
    with torch.no_grad():
        val_loss = nn.functional.mse_loss(model(x[:16]), y[:16]).item()
    if val_loss < lowest:
        lowest = val_loss
        best_model = model  # TC109: taken
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x[16:]), y[16:]).backward()
    optimizer.step()  # TC109: overwritten
with torch.no_grad():
    print(lowest, nn.functional.mse_loss(best_model(x[:16]), y[:16]).item())  # TC109: used
