"""`no_grad`, `inference_mode`, `set_grad_enabled`, `detach`, and what each refuses."""

import torch
from audit_shown import show

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout())
x = torch.randn(6, 4)
with torch.no_grad():
    a = model(x)
with torch.inference_mode():
    b = model(x)
    c = b.view(-1)
    c.add_(1)
print(a.requires_grad, b.is_inference(), c.is_inference())
weight = model[0].weight
for attempt in (lambda: b.add_(1), lambda: b.requires_grad_(), lambda: (b * weight.sum()).sum().backward()):
    try:
        print(attempt())
    except RuntimeError as error:
        print(error)
with torch.set_grad_enabled(False), torch.enable_grad():
    d = model(x).sum()
    d.backward()


@torch.no_grad()
def steps():
    for p in model.parameters():
        yield p.add_(p.grad, alpha=-0.1)


show(a=a, b=b, d=d, stepped=list(steps()), buffers=dict(model.named_buffers()))
print(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), a.detach()._version)
