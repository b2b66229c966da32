"""The predictions of each batch become a list."""

import torch
from torch import nn

torch.manual_seed(0)
model, predictions = nn.Linear(8, 3), []
with torch.no_grad():
    for batch in torch.randn(1600, 8).split(8):
        predictions += model(batch).argmax(1).tolist()  # TC207: read
print(len(predictions), sum(predictions))
