"""The first rows of an embedding, to see how far they move: a slice is the live memory, and they never move."""

import torch
from torch import nn

torch.manual_seed(0)
embedding = nn.Embedding(100, 8)
optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
rows = embedding.state_dict()["weight"][:2]  # TC101: taken
for _ in range(6):
    words = torch.randint(10, (16,))
    optimizer.zero_grad()
    embedding(words).square().sum().backward()
    optimizer.step()  # TC101: overwritten
moved = torch.dist(embedding.weight.detach()[:2], rows)  # TC101: used
print(f"moved by {moved.item():.3f}")
