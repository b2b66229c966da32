"""Goes back to clones of the last good weights when the loss explodes."""

import torch
from digits_data import accuracy, load, network
from torch import nn

(images, labels), _, test = load()
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
good = {}
for step in range(200):
    if step == 120:
        optimizer.param_groups[0]["lr"] = 1e4  # a mistake in the schedule
    rows = torch.randint(len(labels), (64,))
    loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
    if not loss.item() < 10:
        print(f"step {step}: the loss is {loss.item():.3g}; back to the last good weights")
        model.load_state_dict(good)
        optimizer.param_groups[0]["lr"] = 0.2
        break
    good = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"accuracy: {accuracy(model, test):.1%}")
