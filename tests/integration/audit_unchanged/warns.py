"""Warnings of Python's and torch's: shown once each, with the same lines."""

import warnings

import numpy as np
import torch

torch.manual_seed(0)

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scheduler.step()
for _ in range(2):
    warnings.warn("of the program's own", stacklevel=1)
    warnings.warn("deprecated by the program", DeprecationWarning, stacklevel=1)
result = model(torch.ones(1, 2))
print(result.grad)
print(torch.tensor(result))
torch.nn.functional.mse_loss(torch.ones(2, 2), torch.ones(2))
torch.nn.functional.softmax(torch.ones(2, 2))
print(torch.tensor([1.0]).new_tensor(torch.ones(2)))
t = torch.ones(3)
t.resize_(0)
torch.add(torch.ones(2), torch.ones(2), out=t)
u = torch.ones(1)
torch.add(torch.ones(2), torch.ones(2), out=u)


def inner():
    warnings.warn("of the caller", UserWarning, stacklevel=2)


inner()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(model(torch.ones(1, 2)).grad)
print([(str(each.message)[:40], each.lineno) for each in caught])
array = np.ones(3)
array.flags.writeable = False
for _ in range(2):  # once a line, and a line of the program's own
    torch.from_numpy(array)
torch.as_tensor(array)
model.state_dict({}, "prefix.")
torch.ones(2, dtype=torch.complex64).to(torch.float32)
