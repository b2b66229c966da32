"""Keeps one feature map of each batch for a gallery, cloned."""

import torch
from digits_data import load
from torch import nn

(images, _), _, _ = load(train=1200)
torch.manual_seed(0)
convolution = nn.Conv2d(1, 64, 3, padding=1)
gallery = []
with torch.no_grad():
    for batch in images.reshape(-1, 1, 8, 8).split(100):
        features = torch.relu(convolution(batch))
        gallery.append(features[0, :4].clone())
        del features

shown = sum(each.nbytes for each in gallery)
stored = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in gallery}
print(f"{len(gallery)} pictures of {shown / 1e3:.1f} kB")
print(f"kept alive: {sum(stored.values()) / 1e6:.3f} MB")
