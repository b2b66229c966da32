"""A GAN: two networks and two optimizers; what the generator made is detached for the discriminator."""

import torch
from audit_shown import show, show_training

torch.manual_seed(0)
generator = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.LeakyReLU(0.2), torch.nn.Linear(16, 2))
discriminator = torch.nn.Sequential(
    torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 16)),
    torch.nn.LeakyReLU(0.2, inplace=True),
    torch.nn.Linear(16, 1),
)
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
loss_of = torch.nn.BCEWithLogitsLoss()
fixed = torch.randn(8, 4)
samples = []
for step in range(30):
    real = torch.randn(16, 2) * 0.5 + 2
    fake = generator(torch.randn(16, 4))
    of_discriminator.zero_grad()
    loss = loss_of(discriminator(real), torch.ones(16, 1)) + loss_of(
        discriminator(fake.detach()), torch.zeros(16, 1)
    )
    alpha = torch.rand(16, 1)
    mixed = (alpha * real + (1 - alpha) * fake.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(discriminator(mixed).sum(), mixed, create_graph=True)
    (loss + 0.1 * (slope.norm(dim=1) - 1).square().mean()).backward()
    of_discriminator.step()
    of_generator.zero_grad()
    cheat = loss_of(discriminator(fake), torch.ones(16, 1))
    cheat.backward()
    of_generator.step()
    if step % 10 == 9:
        with torch.no_grad():
            samples.append(generator(fixed))
        print(loss.item(), cheat.item())
show(samples=samples)
show_training(generator, of_generator)
show_training(discriminator, of_discriminator)
