"""The slow weights of a lookahead are the fast ones: going back to them changes nothing."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
slow = model.state_dict(keep_vars=False)  # TC101: taken
for step in range(1, 11):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()  # TC101: overwritten
    if step % 5 == 0:
        model.load_state_dict(slow)  # TC101: used  # TC107: restored?
