"""A small diffusion model with a moving average, sampled from in place; schedules are buffers and views."""

import copy

import torch
from audit_shown import show, show_training

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.SiLU(), torch.nn.Linear(32, 2))
average = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
betas = torch.linspace(1e-4, 0.2, 20)
kept = (1 - betas).cumprod(0)
for _ in range(40):
    clean = torch.randn(16, 2) * 0.2 + 1
    t = torch.randint(20, (16,))
    noise = torch.randn_like(clean)
    noisy = kept[t, None].sqrt() * clean + (1 - kept[t, None]).sqrt() * noise
    loss = (model(torch.cat([noisy, t[:, None] / 20], 1)) - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.1)
with torch.inference_mode():
    x = torch.randn(8, 2)
    path = [x.clone()]
    for t in reversed(range(20)):
        guess = average(torch.cat([x, torch.full((8, 1), t / 20)], 1))
        x.sub_(guess * betas[t] / (1 - kept[t]).sqrt()).div_((1 - betas[t]).sqrt())
        if t:
            x.add_(torch.randn_like(x), alpha=betas[t].sqrt().item())
        path.append(x.clone())
show(path=path, loss=loss)
show_training(model, optimizer)
show_training(average)
