"""The discriminator steps between the generator's forward and backward."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
critic = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3)
bce = nn.functional.binary_cross_entropy_with_logits
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
for _ in range(2):
    fake = generator(torch.randn(16, 2))
    loss_g = bce(critic(fake), ones)  # TC103: saved
    loss_d = bce(critic(torch.randn(16, 3)), ones) + bce(critic(fake.detach()), zeros)
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()  # TC103: overwritten
    opt_g.zero_grad()
    loss_g.backward()  # TC103: backward
    opt_g.step()
