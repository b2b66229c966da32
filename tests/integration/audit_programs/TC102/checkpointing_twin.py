"""Activation checkpointing: what the block saves is made anew in backward."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(8, 32), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(32, 8))
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*block.parameters(), *head.parameters()])
for _ in range(3):
    optimizer.zero_grad()
    hidden = checkpoint(block, torch.randn(16, 8), use_reentrant=False)
    hidden = checkpoint(block, hidden, use_reentrant=True)
    head(hidden).square().mean().backward()
    optimizer.step()
