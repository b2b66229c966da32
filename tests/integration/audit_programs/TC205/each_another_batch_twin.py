"""Each batch is converted once."""

import torch

torch.manual_seed(0)
data = torch.randint(0, 256, (2048, 64), dtype=torch.uint8)
total = torch.zeros(64)
for batch in data.split(64):
    total += batch.float().sum(0)
print(total.mean().item())
