"""A class keeps the values of the last batch: cloned, then detached."""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.last = nn.Linear(32, 64), None

    def forward(self, x):
        values = self.net(x)
        self.last = values.clone().detach()  # TC203: copied
        return torch.relu_(values)


torch.manual_seed(0)
critic = Critic()
for _ in range(5):
    critic(torch.randn(16, 32)).sum().backward()
    critic.last.clamp_(-1, 1)
print(critic.last.std().item())
