"""A variational autoencoder with data from numpy, its arrays changed by numpy between the batches' uses."""

import numpy as np
import torch
from audit_shown import show, show_training

torch.manual_seed(0)
random = np.random.default_rng(0)
array = random.normal(size=(64, 6)).astype(np.float32)
encoder, decoder = (
    torch.nn.Linear(6, 8),
    torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ELU(), torch.nn.Linear(16, 6)),
)
both = torch.nn.ModuleList([encoder, decoder])
optimizer = torch.optim.Adam(both.parameters(), lr=0.01)
codes = []
for _ in range(4):
    random.shuffle(array)
    data = torch.tensor(array)
    for batch in data.split(16):
        mean, spread = encoder(batch).chunk(2, dim=1)
        code = mean + torch.randn_like(spread) * (0.5 * spread).exp()
        loss = (decoder(code) - batch).square().sum(1).mean()
        loss = loss - 0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        codes.append(mean.detach().numpy().copy())
    array -= array.mean(0)
    print(loss.item())
show(codes=np.concatenate(codes), data=data)
show_training(both, optimizer)
