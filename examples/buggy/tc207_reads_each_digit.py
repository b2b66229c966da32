"""Counts correct digits one by one after each epoch: each comparison is a number that Python waits for."""

from time import perf_counter

import torch
from digits_data import load, network, train

training, _, (images, labels) = load()
model = network()
waits, seconds = 0, 0.0
for _epoch in range(5):
    train(model, training, epochs=1)
    with torch.no_grad():
        predictions = model(images).argmax(1)
    start = perf_counter()
    correct = 0
    for prediction, label in zip(predictions, labels, strict=True):
        correct += (prediction == label).item()
        waits += 1
    seconds += perf_counter() - start
print(f"accuracy: {correct / len(labels):.1%}")
print(f"numbers waited for: {waits}, in {seconds * 1e3:.2f} ms")
