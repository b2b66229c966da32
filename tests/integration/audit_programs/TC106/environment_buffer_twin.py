"""An environment fills one array again and again; each tensor is a copy of it."""

import numpy as np
import torch


class Environment:
    def __init__(self):
        self.random, self.observation = np.random.default_rng(0), np.zeros(4, dtype=np.float32)

    def step(self):
        self.observation[:] = self.random.standard_normal(4)
        return self.observation


environment = Environment()
observations = [torch.tensor(environment.step()) for _ in range(16)]
batch = torch.stack(observations)
print(batch.std(0).tolist())
