"""A memory of predicted values for later: each holds the network's activations."""

import random
from collections import deque

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
q_net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(q_net.parameters())
memory = deque(maxlen=10_000)
for _step in range(60):
    observation = torch.randn(1, 4)
    value = q_net(observation).max()  # TC105: made?
    memory.append((observation, value))  # TC105: kept
    sample = random.sample(memory, min(8, len(memory)))
    inputs, targets = torch.cat([o for o, _ in sample]), torch.stack([v for _, v in sample]).detach()
    loss = (q_net(inputs).max(1).values - 0.9 * targets - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
