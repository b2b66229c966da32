"""A data loader whose workers are new interpreters, which import the main module again."""

import numpy as np
import torch
from audit_shown import show, show_training
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Noise(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((3,), float(index)) + torch.randn(3), np.random.rand(), index % 2


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from (torch.randn(2) + n for n in range(info.id, 6, info.num_workers))


if __name__ == "__main__":
    torch.manual_seed(0)
    np.random.seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Noise(), batch_size=4, shuffle=True, num_workers=2, multiprocessing_context="spawn")
    for _ in range(1):
        for x, extra, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            show(x=x, extra=extra.shape)
    show(stream=list(DataLoader(Stream(), batch_size=3, num_workers=1, multiprocessing_context="spawn")))
    show_training(model, optimizer)
