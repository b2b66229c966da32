"""Each tensor of a batch is cloned so that it can be augmented in place."""

import torch


def augment(batch):
    batch = {name: value.clone() for name, value in batch.items()}
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
