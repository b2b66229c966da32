"""Two losses of one forward; fused AdamW writes the weights between their backwards, and bumps no version."""

import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
head_a, head_b = nn.Linear(16, 1), nn.Linear(16, 1)
parameters = [*body.parameters(), *head_a.parameters(), *head_b.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=0.05, fused=True)
for _ in range(3):
    features = body(torch.randn(32, 5))  # TC102: saved
    loss_a = head_a(features).square().mean()
    loss_b = (head_b(features) - 1).square().mean()
    optimizer.zero_grad()
    loss_a.backward(retain_graph=True)
    optimizer.step()  # TC102: overwritten
    loss_b.backward()  # TC102: backward
    optimizer.step()
