"""Images in another order of memory are made contiguous at each access."""

import torch


class Gallery:
    def __init__(self, images):
        self.images = images.permute(0, 3, 1, 2)

    def mean(self, channel):
        return self.images.contiguous()[:, channel].mean()  # TC205: converted


torch.manual_seed(0)
gallery = Gallery(torch.rand(16, 32, 32, 3))
print(float(sum(gallery.mean(channel % 3) for channel in range(42))))
