"""A training step in a compiled region, with the optimizer outside of it."""

import torch
from audit_shown import show, show_training
from clean_tools import batches, blobs

torch.manual_seed(0)
x, y = blobs()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
forward = torch.compile(model, backend="aot_eager")
losses = []
for _ in range(3):
    for batch in batches(len(x), 32):
        loss = torch.nn.functional.cross_entropy(forward(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
show(losses=losses)
show_training(model, optimizer)
