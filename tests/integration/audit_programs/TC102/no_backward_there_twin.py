"""What one loss has saved is overwritten, and only the other loss is sent backward."""

import torch

torch.manual_seed(0)
w, v = torch.randn(6, requires_grad=True), torch.randn(6, requires_grad=True)
loss = w.sin().sum()
monitored = v.square().sum()
v.data.zero_()
loss.backward()
print(monitored.item(), w.grad)
