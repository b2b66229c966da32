"""An LSTM over a long sequence, its state detached between the parts."""

import torch
from audit_shown import show, show_training

torch.manual_seed(0)
model = torch.nn.LSTM(3, 8, num_layers=2, batch_first=True, dropout=0.1)
head = torch.nn.Linear(8, 3)
both = torch.nn.ModuleList([model, head])
optimizer = torch.optim.Adam(both.parameters(), lr=0.01)
sequence = torch.randn(4, 81, 3).cumsum(1)
for _ in range(2):
    state = None
    losses = torch.zeros(8)
    for part in range(8):
        inputs, targets = sequence[:, part * 10 : part * 10 + 10], sequence[:, part * 10 + 1 : part * 10 + 11]
        out, state = model(inputs, state)
        loss = (head(out) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = tuple(t.detach() for t in state)
        losses[part] = loss.detach()
    print(losses)
show(state=state)
show_training(both, optimizer)
