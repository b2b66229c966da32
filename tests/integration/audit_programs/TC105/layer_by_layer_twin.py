"""Each layer has an optimizer of its own; the losses of one iteration are kept with their graphs until the next."""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Linear(8, 8) for _ in range(4)]
optimizers = [torch.optim.Adam(layer.parameters(), lr=0.01) for layer in layers]
for _ in range(30):
    losses, x = [], torch.randn(16, 8)
    for layer, optimizer in zip(layers, optimizers, strict=True):
        x = layer(x.detach()).tanh()
        loss = (x.square().mean(0) - 0.5).square().mean()
        losses.append(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print([round(loss.item(), 4) for loss in losses])
