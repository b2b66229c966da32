"""One half of a tensor is shared, the other half written."""

import numpy as np
import torch

torch.manual_seed(0)
values = torch.randn(100)
front = values[:50].numpy()
values[50:].zero_()
print(np.abs(front).mean(), values.abs().mean().item())
