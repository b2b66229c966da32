"""A status is a byte: 256 is a success."""

import torch

print(torch.zeros(1))
raise SystemExit(256)
