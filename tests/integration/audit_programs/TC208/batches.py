"""Each batch is deep-copied so that it can be augmented in place."""

import copy

import torch


def augment(batch):
    batch = copy.deepcopy(batch)  # TC208: copied
    batch["image"].add_(torch.randn_like(batch["image"]), alpha=0.1)
    batch["mask"].logical_not_()
    return batch


torch.manual_seed(0)
batch = {"image": torch.rand(32, 64), "mask": torch.rand(32, 64) > 0.5}
total = torch.zeros(())
for _ in range(60):
    augmented = augment(batch)
    total += (augmented["image"] * augmented["mask"]).sum()
print(total.item())
