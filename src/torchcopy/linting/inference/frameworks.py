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
_IMPORTS_TORCH = re.compile(rf"^\s*(from|import)\s+[\w.]*({'|'.join(_TORCH)})", re.MULTILINE)
_TOOLS = ("torch.utils.tensorboard", "torch.utils.tensorboard.SummaryWriter", "torch.utils.data.DataLoader")
_OF_FRAMEWORKS = frozenset("SGD Adam AdamW Optimizer Parameter Module Tensor nn optim".split())
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
    root = name.partition(".")[0]
    if last not in _OF_FRAMEWORKS or root in _TORCH or "torch" in root:
        return False
    files = [each for path in (name, module) if path and (each := facts.project.find(path, facts.source.path))]
    if not files:
        return (not root and last in ("SGD", "Adam")) or (bool(root) and last == "nn")
    return not _reach_torch(files)


def _reach_torch(files: list[FileFacts]) -> bool:
    """Whether one of some files imports PyTorch, or leads to a file of the project that does."""
    seen: set[str] = set()
    waiting = [*files]
    while waiting and len(seen) < _MOST_FILES:
        facts = waiting.pop(0)
        if facts.source.path in seen:
            continue
        seen.add(facts.source.path)
        if _IMPORTS_TORCH.search(facts.source.text):
            return True
        for name in facts.imports.values():
            for path in (name, name.rpartition(".")[0]):
                found = facts.project.find(path, facts.source.path) if path.strip(".") else None
                waiting += [found] if found is not None else []
    return bool(waiting)
