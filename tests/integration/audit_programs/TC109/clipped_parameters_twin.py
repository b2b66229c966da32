"""A list of the parameters is made once and serves the optimizer, the clipping and a penalty: it shall be live."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
parameters = list(model.parameters())
optimizer = torch.optim.Adam(parameters, lr=0.01)
for _ in range(5):
    penalty = sum(p.square().sum() for p in parameters)
    loss = model(torch.randn(16, 4)).square().mean() + 1e-3 * penalty
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
print(float(sum(p.detach().norm() for p in parameters)))
