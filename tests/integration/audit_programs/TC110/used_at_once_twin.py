"""The last output of each sequence is sliced in a forward, used in the next line, and gone."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 64, batch_first=True), nn.Linear(64, 2)

    def last(self, x):
        outputs, _ = self.rnn(x)
        return outputs[:, -1]

    def forward(self, x):
        return self.head(self.last(x))


torch.manual_seed(0)
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 600, 8)).square().mean().backward()
    optimizer.step()
with torch.no_grad():
    print(model(torch.randn(8, 600, 8)).argmax(1).tolist())
