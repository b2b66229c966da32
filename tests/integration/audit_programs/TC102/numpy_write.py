"""Noise is added in NumPy to an activation that exp has saved: the array is the tensor's memory."""

import torch

torch.manual_seed(0)
w = torch.randn(20, requires_grad=True)
activation = w.exp()  # TC102: saved
array = activation.detach().numpy()  # TC106: shared?
torch.from_numpy(array).mul_(0.5)  # TC102: overwritten  # TC106: written?
activation.sum().backward()  # TC102: backward  # TC106: used?
print(w.grad, array.mean())
