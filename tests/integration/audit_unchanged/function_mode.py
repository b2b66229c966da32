"""A function mode of the program's own sees the same functions, in the same order; a default device is one too."""

import torch
from audit_shown import show
from torch.overrides import TorchFunctionMode

seen = []


class Log(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append((getattr(function, "__name__", str(function)), len(args), sorted(kwargs or {})))
        return function(*args, **(kwargs or {}))


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.MultiheadAttention(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with Log():
    for _ in range(2):
        x = model[0](torch.randn(4, 3))
        loss = model[1](x, x, x)[0].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x.data.add_(1)
    copied = x.detach().clone()
    state = {name: t.clone() for name, t in model.state_dict().items()}
with torch.device("meta"):
    print(torch.empty(3).device, torch.nn.Linear(2, 2).weight.device)
with torch.device("cpu"), Log():
    print(torch.ones(2) + torch.tensor([1.0, 2.0]))
print(len(seen))
for line in seen:
    print(*line)
show(copied=copied, state=state)
