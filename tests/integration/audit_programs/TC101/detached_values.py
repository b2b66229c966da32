"""`detach` leaves the graph, not the memory: a dict of detached weights is trained on, by fused AdamW."""

import torch
from torch import nn


def snapshot(model):
    return {name: value.detach() for name, value in model.state_dict().items()}  # TC101: taken


def main():
    torch.manual_seed(0)
    x = torch.randn(32, 6)
    model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    initial = snapshot(model)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()  # TC101: overwritten
    other = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 1))
    other.load_state_dict(initial)  # TC101: used


main()
