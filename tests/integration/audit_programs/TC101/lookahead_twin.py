"""The slow weights of a lookahead are tensors of their own."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
slow = {name: value.clone() for name, value in model.state_dict(keep_vars=False).items()}
for step in range(1, 11):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    if step % 5 == 0:
        for name, value in model.state_dict().items():
            slow[name].lerp_(value, 0.5)
        model.load_state_dict(slow)
