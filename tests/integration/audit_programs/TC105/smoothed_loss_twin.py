"""An exponential mean of the loss for the progress bar, of detached values."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
smoothed = torch.zeros(())
for _ in range(50):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    smoothed = 0.9 * smoothed + 0.1 * loss.detach()
print(smoothed.item())
