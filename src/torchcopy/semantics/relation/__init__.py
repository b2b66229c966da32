"""How two live tensors, or two containers of them, share memory, version counters and graph."""

from __future__ import annotations

from .pair import Relation
from .relating import relate
from .tree import TreeRelation

__all__ = ["Relation", "TreeRelation", "relate"]
