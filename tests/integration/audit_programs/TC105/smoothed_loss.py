"""An exponential mean of the loss for the progress bar, with a graph that goes back to the first step."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
smoothed = torch.zeros(())
for _ in range(50):
    loss = model(torch.randn(16, 8)).square().mean()  # TC105: made
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    smoothed = 0.9 * smoothed + 0.1 * loss  # TC105: kept
print(smoothed.item())
