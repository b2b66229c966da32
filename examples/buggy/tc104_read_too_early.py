"""Reads predictions on the CPU while the GPU still copies them: the copy was asked not to be waited for."""

import torch
from digits_data import Data, accuracy, load, network, train
from torch import nn


def accuracy_on_gpu(model: nn.Module, data: Data) -> float:
    """As `accuracy`, with the predictions copied into pinned memory."""
    device = next(model.parameters()).device
    images, labels = data[0].to(device), data[1]
    predictions = torch.zeros(len(labels), dtype=torch.int64, pin_memory=True)
    with torch.no_grad():
        busy = torch.randn(4096, 4096, device=device)
        for _ in range(20):
            busy = busy @ busy / 64  # as large a model would have the GPU busy
        predictions.copy_(model(images).argmax(1), non_blocking=True)
    return float((predictions == labels).float().mean())


def main() -> None:
    if not torch.cuda.is_available():
        print("this program needs a GPU: on a CPU no copy is waited for in vain")
        return
    training, _, test = load()
    model = network()
    train(model, training)
    print(f"accuracy, computed on the CPU: {accuracy(model, test):.1%}")
    print(f"accuracy, of what the GPU has copied: {accuracy_on_gpu(model.cuda(), test):.1%}")


if __name__ == "__main__":
    main()
