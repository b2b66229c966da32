"""A leaf to optimise is made from a tensor by `torch.tensor(…, requires_grad=True)`."""

import torch
from torch import nn

torch.manual_seed(0)
model, image = nn.Linear(50, 1), torch.rand(8, 50)
adversarial = torch.tensor(image, requires_grad=True)  # TC204: copied
optimizer = torch.optim.SGD([adversarial], lr=1.0)
for _ in range(3):
    optimizer.zero_grad()
    model(adversarial).sum().backward()
    optimizer.step()
print(torch.dist(adversarial.detach(), image).item())
