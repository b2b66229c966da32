"""Modules to copy, with the shapes of well-known ones, from plain `torch.nn`: nothing is downloaded."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TransformerBlock(nn.Module):
    """A block of GPT-2: attention and a feed-forward layer, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Hidden states of shape `[batch, length, width]` to the same."""
        batch, length, width = x.shape
        split = self.attend(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        fed: Tensor = self.narrow(nn.functional.gelu(self.widen(self.norm_2(x))))
        return x + fed


class Gpt2(nn.Module):
    """GPT-2 with tied embeddings."""

    def __init__(self, words: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens of shape `[batch, length]` to a score for each word."""
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


class Bottleneck(nn.Module):
    """A block of ResNet-50: three convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.reduce, self.norm_1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm_2 = nn.BatchNorm2d(width)
        self.expand, self.norm_3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """An image batch to one with four times `width` channels."""
        y = torch.relu(self.norm_1(self.reduce(x)))
        y = torch.relu(self.norm_2(self.conv(y)))
        return torch.relu(self.norm_3(self.expand(y)) + self.shortcut(x))


def gpt2_small() -> nn.Module:
    """GPT-2 small: 124 million parameters in 148 tensors, 498 MB in float32."""
    return Gpt2(words=50257, length=1024, width=768, layers=12, heads=12)


def resnet_50() -> nn.Module:
    """ResNet-50: 25.6 million parameters, 102 MB in float32, most of its tensors small."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(blocks):
            layers.append(Bottleneck(channels, width, stride if index == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def many_small() -> nn.Module:
    """4,000 parameters of 16×16: 4 MB, all of it overhead."""
    return nn.ParameterList(nn.Parameter(torch.randn(16, 16)) for _ in range(4000))


FACTORIES = (gpt2_small, resnet_50, many_small)
