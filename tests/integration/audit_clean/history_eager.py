"""Snapshots of a training in the mode "eager": the best are kept, one is restored, some are averaged."""

import torch
from audit_shown import show, show_training

import torchcopy as tc

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
x, y = torch.randn(64, 6), torch.randn(64, 1)
history = tc.History(
    model=model, optimizer=optimizer, scheduler=scheduler, keep=3, keep_best={"loss": "min"}, mode="eager"
)
for epoch in range(20):
    for batch in torch.randperm(64).split(16):
        loss = torch.nn.functional.mse_loss(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    history.take(epoch=epoch, loss=loss.item())
show_training(model, optimizer)
show(kept=[snapshot.state_dict("model") for snapshot in history])
show(averaged=tc.average(history))
history.best("loss").restore()
print(len(history), [snapshot.labels for snapshot in history])
show_training(model, optimizer)
