"""Moving averages of weights: `AveragedModel` of both kinds, `tc.EMA`, and one by hand; each is evaluated."""

import torch
from audit_shown import show, show_training
from clean_tools import batches, blobs, classifier
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

import torchcopy as tc

torch.manual_seed(0)
x, y = blobs()
model = classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
averaged = AveragedModel(model)
moving = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
ours = tc.EMA(model, decay=0.9)
shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
schedule = SWALR(optimizer, swa_lr=0.02)
for epoch in range(6):
    for batch in batches(len(x)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
        moving.update_parameters(model)
        ours.update()
        with torch.no_grad():
            for name, p in model.named_parameters():
                shadow[name].lerp_(p, 0.1)
    if epoch > 2:
        averaged.update_parameters(model)
        schedule.step()
update_bn([x[:48], x[48:]], averaged)
show_training(model, optimizer)
show_training(averaged)
show_training(moving)
show(shadow=shadow, averaged=averaged.eval()(x), moving=moving.eval()(x), ours=ours.state_dict())
