"""A model with tied weights is loaded from the state_dict of another one."""

import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, words):
        return self.out(self.embed(words))


torch.manual_seed(0)
first, second = Tied(), Tied()
optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
first(torch.arange(10)).square().mean().backward()
optimizer.step()
second.load_state_dict(first.state_dict())
assert torch.equal(first.out.weight, second.embed.weight)
