"""A discriminator with batch norm sees real and fake images, in training, before one backward of both losses."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
discriminator = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=0.01)
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=0.01)
for _ in range(6):
    fake = generator(torch.randn(16, 4))
    on_real, on_fake = discriminator(torch.randn(16, 6)), discriminator(fake.detach())
    of_discriminator.zero_grad()
    (nn.functional.softplus(-on_real) + nn.functional.softplus(on_fake)).mean().backward()
    of_discriminator.step()
    of_generator.zero_grad()
    nn.functional.softplus(-discriminator(fake)).mean().backward()
    of_generator.step()
