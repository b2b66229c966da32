"""Autocast to bfloat16 with its cache of casts, nested and switched off, and a gradient scaler."""

import torch
from audit_shown import show_training

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=2)
for step in range(8):
    x, target = torch.randn(4, 8), torch.randint(2, (4,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
        again = model(x)
        with torch.autocast("cpu", enabled=False):
            loss = torch.nn.functional.cross_entropy(out.float() + again.float(), target)
        kinds = (out.dtype, (x @ x.T).dtype, x.softmax(0).dtype, torch.is_autocast_enabled("cpu"))
    optimizer.zero_grad()
    scaler.scale(loss * (float("inf") if step == 3 else 1)).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item(), norm.item(), scaler.get_scale(), *kinds)
show_training(model, optimizer)
