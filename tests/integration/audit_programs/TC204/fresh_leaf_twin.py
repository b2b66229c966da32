"""A leaf to optimise is made from a tensor by `detach().clone().requires_grad_()`."""

import torch
from torch import nn

torch.manual_seed(0)
model, image = nn.Linear(50, 1), torch.rand(8, 50)
adversarial = image.detach().clone().requires_grad_()
optimizer = torch.optim.SGD([adversarial], lr=1.0)
for _ in range(3):
    optimizer.zero_grad()
    model(adversarial).sum().backward()
    optimizer.step()
print(torch.dist(adversarial.detach(), image).item())
