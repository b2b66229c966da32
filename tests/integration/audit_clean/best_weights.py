"""The best weights are kept, in four right ways, and restored at the end; early stopping; a plateau scheduler."""

import copy

import torch
from audit_shown import show, show_training
from clean_tools import batches, blobs, classifier

torch.manual_seed(0)
x, y = blobs()
held_x, held_y = blobs(count=48, seed=1)
model = classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
best, waited = float("inf"), 0
for epoch in range(25):
    model.train()
    for batch in batches(len(x)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(held_x), held_y).item()
    scheduler.step(loss)
    if loss < best:
        best, waited = loss, 0
        states = [
            copy.deepcopy(model.state_dict()),
            {name: t.clone() for name, t in model.state_dict().items()},
            {name: t.detach().cpu().clone() for name, t in model.named_parameters()},
        ]
        whole = copy.deepcopy(model)
        moments = copy.deepcopy(optimizer.state_dict())
    else:
        waited += 1
        if waited > 5:
            break
    print(epoch, loss, optimizer.param_groups[0]["lr"])
show_training(model, optimizer)
for state in states:
    model.load_state_dict(state, strict=False)
    show(restored=dict(model.named_parameters()))
model.load_state_dict(whole.state_dict())
optimizer.load_state_dict(moments)
torch.nn.functional.cross_entropy(model(x), y).backward()
optimizer.step()
show_training(model, optimizer)
