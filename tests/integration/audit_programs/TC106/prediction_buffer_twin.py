"""Predictions are written into one tensor; what is kept are arrays of another type, which are copies."""

import numpy as np
import torch

torch.manual_seed(0)
weight, out = torch.randn(8, 4), torch.empty(16, 4)
kept = []
for _ in range(3):
    torch.mm(torch.randn(16, 8), weight, out=out)
    kept.append(np.asarray(out, dtype=np.float64))
print(np.ptp(kept, axis=0).max())
