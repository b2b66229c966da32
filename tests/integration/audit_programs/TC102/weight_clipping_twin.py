"""A critic whose weights are clipped through `.data` after each step, as in the Wasserstein GAN."""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-3)
for _ in range(5):
    for p in critic.parameters():
        p.data.clamp_(-0.05, 0.05)
    real, fake = torch.randn(16, 4), torch.rand(16, 4)
    optimizer.zero_grad()
    (critic(fake).mean() - critic(real).mean()).backward()
    optimizer.step()
