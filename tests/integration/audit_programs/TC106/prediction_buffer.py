"""Predictions are written into one tensor; their arrays are kept, and compared with each other."""

import numpy as np
import torch

torch.manual_seed(0)
weight, out = torch.randn(8, 4), torch.empty(16, 4)
kept = []
for _ in range(3):
    torch.mm(torch.randn(16, 8), weight, out=out)  # TC106: written
    kept.append(np.asarray(out))  # TC106: shared
print(np.ptp(kept, axis=0).max())  # TC106: used?
