"""TC101 and TC107: a `state_dict()` that was kept as if it were a copy."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ... import _torch_private
from ..._tensors import has_storage
from ..finding_log import FindingLog
from ..tracking.storages import WatchedStorages, Write
from ..tracking.weak_tables import forget_with

Use = Literal["read", "saved", "loaded"]
_COPY = "keep a copy: `copy.deepcopy({state})`, or `torchcopy.History`, which takes and restores one cheaply"
_ROLES: dict[Use, str] = {"read": "used here", "saved": "saved here", "loaded": "loaded back here"}


class Alias:
    """A tensor that a `state_dict()` has handed out, and its views: it shows what training writes.

    Attributes:
        owner: the module, as a weak reference.
        taken: the line of the `state_dict()`.
        overwritten: the line of the first write since; 0 for none.
        writes: how many there were.
        on_purpose: whether somebody has written through it, so that it is known to be live.
        reads: by line, how many writes there had been when it was read first.
        seen: the tensors that view it, by identity.
    """

    __slots__ = ("__weakref__", "on_purpose", "overwritten", "owner", "reads", "seen", "taken", "writes")

    def __init__(self, owner: weakref.ref[Any], taken: int) -> None:
        self.owner, self.taken = owner, taken
        self.overwritten = self.writes = 0
        self.on_purpose = False
        self.reads: dict[int, int] = {}
        self.seen: dict[int, None] = {}

    def written(self, storage: int, write: Write) -> bool:
        """Training has written it, or somebody has, through it."""
        del storage
        if not self.seen:
            return True
        if not self.seen.keys().isdisjoint(map(id, write.targets)):
            self.on_purpose = True
            return True
        self.overwritten = self.overwritten or write.site
        self.writes += 1
        return False

    def gone(self, storage: int) -> None:
        """Nobody has it any more."""


class KeptStates:
    """Follows what `state_dict()` hands out until it is used after a write, or let go.

    Attributes:
        aliases: by the identity of each tensor that was handed out or views one; empty most of the time.
    """

    def __init__(self, findings: FindingLog, storages: WatchedStorages) -> None:
        self._findings, self._storages = findings, storages
        self.aliases: dict[int, Alias] = {}
        self._alive: dict[int, tuple[weakref.ref[Tensor], ...]] = {}
        self._reads: dict[tuple[int, int, int], int] = {}  # bytes, by the lines that took, wrote and read
        self._lookers: set[tuple[int, int]] = set()  # lines that took, and that read between any two writes
        self._optimizers: weakref.WeakKeyDictionary[Any, dict[int, int]] = weakref.WeakKeyDictionary()

    # --- what is handed out ---------------------------------------------------------------------------------------

    def taken(self, module: nn.Module, state: Any, site: int) -> None:
        """`module.state_dict()` has returned `state`."""
        if not isinstance(state, Mapping):
            return
        own = {*map(id, module.parameters()), *map(id, module.buffers())}
        live = _storages_of(module)
        owner: weakref.ref[Any] = weakref.ref(module)
        for value in state.values():
            if not isinstance(value, Tensor) or id(value) in own or id(value) in self.aliases:
                continue
            if has_storage(value) and _torch_private.storage_id(value) in live:
                alias = Alias(owner, site)
                self._follow(value, alias)
                self._storages.watch(value, alias)

    def _follow(self, tensor: Tensor, alias: Alias) -> None:
        identity = id(tensor)
        alias.seen[identity] = None
        self.aliases[identity] = alias
        self._alive[identity] = forget_with(tensor, alias.seen, self.aliases, self._alive)

    # --- what is done with it -------------------------------------------------------------------------------------

    def viewed(self, source: Tensor, views: Iterable[Tensor]) -> None:
        """A view of a tensor that was handed out is one itself."""
        alias = self.aliases.get(id(source))
        if alias is not None:
            for view in views:
                if id(view) not in self.aliases:
                    self._follow(view, alias)

    def read(self, tensor: Tensor, site: int, use: Use = "read") -> None:
        """An operation reads `tensor`, or it is pickled, or copied."""
        alias = self.aliases.get(id(tensor))
        if alias is None or not alias.overwritten or alias.on_purpose:
            return
        if use == "read":
            if alias.reads.setdefault(site, alias.writes) != alias.writes:
                self._lookers.add((alias.taken, site))
            self._reads[alias.taken, alias.overwritten, site] = tensor.nbytes
        else:
            self._report(alias.taken, alias.overwritten, site, use, tensor.nbytes)

    def _report(self, taken: int, overwritten: int, used: int, use: Use, size: int) -> None:
        self._findings.add(
            "TC101",
            "this snapshot changed under you: `state_dict()` holds the live tensors, not copies of them",
            [("taken here", taken), ("overwritten here", overwritten), (_ROLES[use], used)],
            fix=_COPY.format(state="model.state_dict()"),
            size=size,
        )

    # --- loading --------------------------------------------------------------------------------------------------

    def loading(self, module: nn.Module, state: Any, site: int, *, assign: bool) -> None:
        """`module.load_state_dict(state)` is called."""
        if not isinstance(state, Mapping) or assign:
            return
        tensors = [v for v in state.values() if isinstance(v, Tensor) and has_storage(v)]
        stale = [a for t in tensors if (a := self.aliases.get(id(t))) and a.overwritten and not a.on_purpose]
        mine = [alias for alias in stale if alias.owner() is module]
        if mine:
            self._report(mine[0].taken, mine[0].overwritten, site, "loaded", sum(t.nbytes for t in tensors))
            return
        for t in tensors:
            self.read(t, site)
        live = _places_of(module)
        own = [t for t in tensors if _place(t) in live]
        names = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        if tensors and len(own) == len(tensors) and names <= state.keys():
            self._findings.add(
                "TC107",
                "this restores nothing: every tensor that is loaded is the module's own",
                [("loaded here", site)],
                fix=_COPY.format(state="model.state_dict()"),
                size=sum(t.nbytes for t in own),
            )

    # --- optimizers -----------------------------------------------------------------------------------------------

    def optimizer_taken(self, optimizer: Any, site: int, steps: int) -> None:
        """`optimizer.state_dict()` has returned its own tensors, after so many steps of the program."""
        self._optimizers.setdefault(optimizer, {}).setdefault(site, steps)

    def optimizer_loading(self, optimizer: Any, state: Any, site: int, steps: int, stepped: int) -> None:
        """`optimizer.load_state_dict(state)` is called; `stepped` is the line of its last step."""
        if not isinstance(state, Mapping):
            return
        given = {id(t) for each in state.get("state", {}).values() for t in _tensors(each)}
        own = {id(t) for each in optimizer.state.values() for t in _tensors(each)}
        if not given or not given <= own:
            return
        taken = [line for line, at in self._optimizers.get(optimizer, {}).items() if at < steps]
        if taken and stepped:
            self._findings.add(
                "TC101",
                "this snapshot changed under you: the optimizer's `state_dict()` holds its live tensors",
                [("taken here", taken[-1]), ("overwritten here", stepped), ("loaded back here", site)],
                fix=_COPY.format(state="optimizer.state_dict()"),
            )

    # --- at the end -----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Reports what was read. A line that reads it between any two writes wants to see the live values."""
        for (taken, overwritten, used), size in self._reads.items():
            if (taken, used) not in self._lookers:
                self._report(taken, overwritten, used, "read", size)
        self._reads.clear()

    def clear(self) -> None:
        """Lets go of everything."""
        self.aliases.clear()
        self._alive.clear()


def _tensors(state: Any) -> list[Tensor]:
    return [v for v in state.values() if isinstance(v, Tensor)] if isinstance(state, Mapping) else []


def _storages_of(module: nn.Module) -> set[int]:
    tensors = [t for some in (module.parameters(), module.buffers()) for t in some if has_storage(t)]
    return set(_torch_private.storage_ids(tensors))


def _place(t: Tensor) -> tuple[int, int, torch.Size]:
    return _torch_private.storage_id(t), int(t.storage_offset()), t.shape


def _places_of(module: nn.Module) -> set[tuple[int, int, torch.Size]]:
    return {_place(t) for some in (module.parameters(), module.buffers()) for t in some if has_storage(t)}
