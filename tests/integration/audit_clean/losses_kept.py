"""Losses, outputs and gradients are logged over the steps, each in a right way."""

import torch
from audit_shown import show, show_training
from clean_tools import batches, blobs, classifier

torch.manual_seed(0)
x, y = blobs()
model = classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
items, detached, cloned, outputs, norms, arrays = [], [], [], [], [], []
running, average = torch.zeros(()), 0.0
confusion = torch.zeros(3, 3, dtype=torch.long)
for epoch in range(6):
    for step, batch in enumerate(batches(len(x))):
        out = model(x[batch])
        loss = torch.nn.functional.cross_entropy(out, y[batch])
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
        optimizer.step()
        items.append(loss.item())
        detached.append(loss.detach())
        cloned.append(loss.detach().clone())
        outputs.append(out.detach().argmax(1).numpy())
        arrays.append(out.detach().cpu().numpy().copy())
        running += loss.detach()
        average += (float(loss) - average) / (step + 1)
        confusion.index_put_((y[batch], out.argmax(1)), torch.tensor(1), accumulate=True)
    print(epoch, sum(items) / len(items), running.item(), average)
show(
    detached=torch.stack(detached), cloned=torch.stack(cloned), outputs=outputs, arrays=arrays, confusion=confusion
)
show(items=items, norms=norms)
show_training(model, optimizer)
