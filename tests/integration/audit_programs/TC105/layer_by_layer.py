"""Each layer has an optimizer of its own; the losses of all iterations are kept with their graphs."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(8, 8) for _ in range(4)]
optimizers = [torch.optim.Adam(layer.parameters(), lr=0.01) for layer in layers]
losses = []
for _ in range(32):
    x = torch.randn(16, 8)
    for layer, optimizer in zip(layers, optimizers, strict=True):
        x = layer(x.detach()).tanh()
        loss = (x.square().mean(0) - 0.5).square().mean()  # TC105: made
        losses.append(loss)  # TC105: kept
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(losses[-1].item())
