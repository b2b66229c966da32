"""Two layers share one weight on purpose, and are trained together."""

import torch
from torch import nn

torch.manual_seed(0)
embed, out = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
out.weight = embed.weight
optimizer = torch.optim.SGD(embed.parameters(), lr=0.1)
for _ in range(4):
    words = torch.randint(10, (8,))
    loss = nn.functional.cross_entropy(out(embed(words)), words)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
