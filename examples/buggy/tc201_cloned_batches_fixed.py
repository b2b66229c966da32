"""Hands each batch to the forward as it is: nothing writes it."""

import torch
from digits_data import accuracy, load, network
from torch import nn

(images, labels), _, test = load()
model = network()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
copied = 0
for _epoch in range(10):
    for inputs, targets in zip(images.split(100), labels.split(100), strict=True):
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"accuracy: {accuracy(model, test):.1%}")
print(f"copied: {copied / 1e6:.2f} MB")
