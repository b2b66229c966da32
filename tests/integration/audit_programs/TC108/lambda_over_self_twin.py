"""A head is a method: the copy's forward goes through its own weights."""

import copy

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.weight = nn.Linear(4, 8), nn.Parameter(torch.randn(3, 8))
        self.head = self.project

    def project(self, h):
        return nn.functional.linear(h, self.weight)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


torch.manual_seed(0)
student = Classifier()
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    with torch.no_grad():
        target = teacher(x) + 1
    optimizer.zero_grad()
    nn.functional.mse_loss(student(x), target).backward()
    optimizer.step()
