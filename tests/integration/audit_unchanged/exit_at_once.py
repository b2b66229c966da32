"""`os._exit`: no handler runs, nothing is flushed but what the program has flushed."""

import os

import torch

print(torch.ones(1), flush=True)
print("never flushed" if not os.isatty(1) else "", end="")
os._exit(7)
