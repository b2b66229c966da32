"""Detached and cloned: the dict keeps its values while fused AdamW trains on."""

import torch
from torch import nn


def snapshot(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def main():
    torch.manual_seed(0)
    x = torch.randn(32, 6)
    model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    initial = snapshot(model)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    other = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 1))
    other.load_state_dict(initial)


main()
