"""Torch is imported by a thread first."""

import threading


def load():
    import torch

    print(torch.ones(2).clone().add_(1))


thread = threading.Thread(target=load)
thread.start()
thread.join()

import torch  # noqa: E402

print(torch.ones(3).sum())
