"""Teacher and student are both run in one step, each through its own weights."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
teacher = copy.deepcopy(student)
teacher.requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=0.01)
kl = nn.KLDivLoss(reduction="batchmean")
for _ in range(5):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    kl(student(x).log_softmax(1), teacher(x + 0.1).softmax(1)).backward()
    optimizer.step()
