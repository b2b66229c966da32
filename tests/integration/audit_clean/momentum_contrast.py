"""MoCo: a key encoder that follows the query encoder, and a queue that is written in place each step."""

import copy

import torch
from audit_shown import show, show_training

torch.manual_seed(0)


class Contrast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", torch.nn.functional.normalize(torch.randn(8, 32), dim=0))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))

    def forward(self, first, second):
        q = torch.nn.functional.normalize(self.query(first), dim=1)
        with torch.no_grad():
            for mine, its in zip(self.key.parameters(), self.query.parameters(), strict=True):
                mine.data = mine.data * 0.99 + its.data * 0.01
            k = torch.nn.functional.normalize(self.key(second), dim=1)
        near = torch.einsum("nc,nc->n", q, k)[:, None]
        far = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        position = int(self.position)
        with torch.no_grad():
            self.queue[:, position : position + len(k)] = k.T
            self.position[0] = (position + len(k)) % self.queue.shape[1]
        return torch.cat([near, far], 1) / 0.2


model = Contrast()
optimizer = torch.optim.SGD(model.query.parameters(), lr=0.1, momentum=0.9)
for _ in range(12):
    x = torch.randn(8, 6)
    logits = model(x + torch.randn_like(x) * 0.1, x + torch.randn_like(x) * 0.1)
    loss = torch.nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
show(logits=logits)
show_training(model, optimizer)
