"""A dispatch mode of the program's own sees the same operators, in the same order, with the same arguments."""

import torch
from audit_shown import show
from torch.utils._python_dispatch import TorchDispatchMode

seen = []


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        seen.append((str(op), len(args), sorted(kwargs or {}), [t.__name__ for t in types]))
        return op(*args, **(kwargs or {}))


class Double(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        return out * 2 if op is torch.ops.aten.sin.default else out


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LSTM(3, 2), torch.nn.Identity())
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
with Log(), Double():
    for _ in range(2):
        out, _ = model[:2](torch.randn(4, 3))
        loss = (out.sin() + out.detach().clone().to(torch.float64)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    value = loss.item()
    copied = model[0].weight.data.clone(memory_format=torch.contiguous_format)
print(len(seen))
for line in seen:
    print(*line)
show(value=value, copied=copied, parameters=list(model.parameters()))
