"""Gradients are accumulated over micro-batches; some losses are summed before one backward."""

import torch
from audit_shown import show_training
from clean_tools import batches, blobs, classifier

torch.manual_seed(0)
x, y = blobs()
model = classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for _ in range(4):
    for step, batch in enumerate(batches(len(x), 8), 1):
        loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch]) / 4
        loss.backward()
        if step % 4 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 8 == 0)
    total = 0
    for batch in batches(len(x), 32):
        total = total + torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
    total.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(total.item())
show_training(model, optimizer)
