"""A list of images is darkened in place after `copy.copy`, which copies no tensor of it."""

import copy

import torch
from torch import nn


def darkened(images):
    images = copy.copy(images)  # TC109: taken
    for image in images:
        image.mul_(0.5)  # TC109: overwritten
    return images


torch.manual_seed(0)
images, labels = [torch.rand(8, 10) for _ in range(3)], torch.randint(2, (24,))
model = nn.Linear(10, 2)
dark = darkened(images)
print(float(nn.functional.cross_entropy(model(torch.cat(images)), labels)))  # TC109: used
print(float(nn.functional.cross_entropy(model(torch.cat(dark)), labels)))
