"""The bare model under a wrapper has a name of its own, for saving and for evaluation."""

import io

import torch
from torch import nn

torch.manual_seed(0)
wrapper = nn.DataParallel(nn.Linear(4, 2))
raw_model = wrapper.module if hasattr(wrapper, "module") else wrapper
net = raw_model
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    wrapper(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        raw_model(torch.randn(8, 4))
torch.save(raw_model.state_dict(), io.BytesIO())
