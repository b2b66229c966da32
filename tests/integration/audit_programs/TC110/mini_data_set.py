"""A few examples of a large data set, kept while the rest is dropped."""

import torch


class Sample:
    def __init__(self, size):
        data = torch.arange(4_000_000, dtype=torch.float32).reshape(-1, 40)
        self.images = data[:size]  # TC110: kept
        self.mean = data.mean()


samples = [Sample(20) for _ in range(3)]
print([float(sample.mean + sample.images.sum()) for sample in samples])
