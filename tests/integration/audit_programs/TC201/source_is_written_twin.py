"""A clone is kept while its source is overwritten: that is what it is for."""

import torch

torch.manual_seed(0)
state = torch.randn(400, 400)
for _ in range(5):
    previous = state.clone()
    state.mul_(0.5).add_(torch.randn_like(state))
    change = (state - previous).abs().max()
print(change.item())
