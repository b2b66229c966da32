"""Whether a file is of PyTorch, or of another framework whose objects have methods of the same names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .file_facts import FileFacts

_OTHERS = frozenset(
    "paddle mindspore mindtorch jittor oneflow mxnet tensorflow chainer tinygrad cupy megengine".split()
)
_TORCH = ("torch", "lightning", "pytorch_lightning", "deepspeed", "accelerate", "transformers")
_IMPORTS_TORCH = re.compile(
    rf"^\s*(from|import)\s+([\w.]+\s*,\s*)*(torch\w*|{'|'.join(_TORCH[1:])})\b", re.MULTILINE
)
_TOOLS = ("torch.utils.tensorboard", "torch.utils.tensorboard.SummaryWriter", "torch.utils.data.DataLoader")
_CLASSES = ("SGD", "Adam", "AdamW", "Optimizer", "Parameter", "Module", "Tensor")
_MODULES = ("nn", "optim")
_METHODS = frozenset("step zero_grad backward parameters forward".split())
_MOST_FILES = 20  # of which one may import PyTorch


def is_of_torch(facts: FileFacts) -> bool:
    """Whether a file imports PyTorch, or a library that trains with it."""
    return any(each.partition(".")[0] in _TORCH for each in facts.imports.values())


def is_of_another_framework(facts: FileFacts) -> bool:
    """Whether a file imports a framework whose tensors have methods of the same names, and not PyTorch."""
    roots = {each.partition(".")[0] for each in facts.imports.values() if each not in _TOOLS}
    if "torch" in roots:
        return False
    return bool(roots & _OTHERS) or any(_is_of_its_own(facts, each) for each in facts.imports.values())


def _is_of_its_own(facts: FileFacts, name: str) -> bool:
    """Whether an imported name is of a framework that the project is: an optimizer or module without PyTorch."""
    module, _, last = name.rpartition(".")
    if name.startswith(".") and last in ("SGD", "Adam"):
        return True
    if last not in (*_CLASSES, *_MODULES) or name.partition(".")[0] in _TORCH or not module:
        return False
    found = facts.project.find(name if last in _MODULES else module, facts.source.path)
    if found is None or (last in _CLASSES and not _has_class(found, last)):
        return False
    return not _reaches_torch(found)


def _has_class(facts: FileFacts, name: str) -> bool:
    """Whether a file has a class of that name that trains or is trained, and does not only tell of one."""
    inner = [each for each in facts.module.inner if each.name == name]
    return any(method.name in _METHODS for each in inner for method in each.inner)


def _reaches_torch(found: FileFacts) -> bool:
    """Whether a file imports PyTorch, or leads to one of the project that does, or to more than are looked at."""
    seen: set[str] = set()
    waiting = [found]
    while waiting and len(seen) < _MOST_FILES:
        facts = waiting.pop(0)
        if facts.source.path in seen:
            continue
        seen.add(facts.source.path)
        if _IMPORTS_TORCH.search(facts.source.text):
            return True
        for name in facts.imports.values():
            for path in (name, name.rpartition(".")[0]):
                below = facts.project.find(path, facts.source.path) if path.strip(".") else None
                waiting += [below] if below is not None else []
    return any(each.source.path not in seen for each in waiting)
