"""A snapshot: the state of a run at one moment."""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._errors import CopyError, InputError
from ..copying.deep_copy import copy
from .building import build
from .held_tensors import HeldTensors
from .parts.part import DESCRIBED, Kind, Part
from .parts.random_numbers import RNG, SharedRandomPart
from .parts.recognising import part_for
from .records import SnapshotReport, report_on
from .restoring import restore
from .state_trees import Node, paths, put_together, value_bytes

if TYPE_CHECKING:
    from .taking.background import StagingJob


@dataclasses.dataclass(frozen=True)
class SavedPart:
    """The state of one part in a snapshot.

    Attributes:
        kind: of the object it was taken from.
        tree: its state, with places for its tensors.
    """

    kind: Kind
    tree: Node


class Snapshot:
    """The state of a run at one moment: of each part that its `History` has, under the part's name.

    Nothing that the run does later changes it, and nothing that it hands out is shared with it: who writes to one
    changes neither the snapshot nor the run.

    Attributes:
        labels: what was given to `History.take`, by name.
        number: 0 for the first snapshot of its history, 1 for the second, and so on.
        taken_at: when, in seconds since the epoch.
        mode: how its bytes were taken; `"loaded"` if it comes from a file.
    """

    def __init__(
        self,
        *,
        labels: Mapping[str, Any],
        number: int,
        mode: str,
        saved: Mapping[str, SavedPart],
        places: Sequence[int],
        held: HeldTensors,
        parts: Mapping[str, Part] | None = None,
        taken_at: float | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Made by `History.take` and `Snapshot.load`.

        `places` has, for each place in the trees, the number of a held tensor.
        """
        self.labels = dict(labels)
        self.number = number
        self.mode = mode
        self.taken_at = time.time() if taken_at is None else taken_at
        self._saved = dict(saved)
        self._places = places
        self._held = held
        self._parts = dict(parts or {})
        self._device = device
        self._staging: StagingJob | None = None
        self._id: str | None = None  # what files know it by

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CopyError("a snapshot is bound to its run: `save(path)` writes it, `state()` copies out of it")

    def __repr__(self) -> str:
        labels = "".join(f", {name}={value!r}" for name, value in self.labels.items())
        return f"<Snapshot {self.number}: {', '.join(self._saved)}{labels}>"

    # --- what there is ---------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, `"rng"` for the shared random generators."""
        return tuple(self._saved)

    @property
    def metrics(self) -> dict[str, float]:
        """The labels that are numbers."""
        return {
            name: float(value)
            for name, value in self.labels.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }

    @property
    def report(self) -> SnapshotReport:
        """How each tensor is held: lazily or copied, and if copied where a lazy clone was wanted, why."""
        return report_on(self)

    @property
    def ready(self) -> bool:
        """Whether the bytes are where they are to be: in the background mode they may be on their way."""
        staging = self._staging
        return staging is None or staging.is_done

    def wait(self) -> Snapshot:
        """Returns when the bytes are where they are to be.

        Raises:
            StagingError: they could not be moved there.
        """
        staging = self._staging
        if staging is not None:
            staging.wait()
        return self

    # --- out of it -------------------------------------------------------------------------------------------

    def state(self, name: str | None = None) -> Any:
        """The state of a part, as the object gave it: new containers and new tensors, on the devices they are on.

        Args:
            name: which part; None for the only module, or the only part.

        Raises:
            InputError: there is no such part.
        """
        part = self._named(name)
        with torch.inference_mode(False):  # for use in training
            return copy(self._own_state(part), on_escape="ignore")

    def state_dict(self, name: str | None = None) -> Any:
        """What the part's `load_state_dict` takes: new containers and new tensors.

        Is storage shared? No, with nothing. Is the graph kept? There is none. Does it synchronise? It waits for
        bytes that are still on their way. Is an input changed? No.

        Args:
            name: which part; None for the only module, or the only part.

        Returns:
            For a module its `state_dict()`, without buffers that are not persistent; else as `state`.

        Raises:
            InputError: there is no such part.
        """
        part = self._named(name)
        with torch.inference_mode(False):  # for use in training
            return copy(self._own_state_dict(part), on_escape="ignore")

    def restore(self, /, **objects: Any) -> None:
        """Writes the snapshot into the live objects, in place: the run goes on from where it was.

        Parameters stay the objects they are, and so do tied weights, hooks, and what optimizers refer to. What an
        optimizer has got since is removed. Gradients are set to None: take snapshots after `optimizer.step()`, or
        before `backward()`.

        The four questions: no storage is shared afterwards, except that a tensor and a lazy snapshot may have the
        same bytes until the tensor is written. No graph is kept: one that needs old values raises at its
        backward. It waits for devices that hold part of it. The live objects are changed, the snapshot is not.

        Args:
            objects: for parts that are to go into other objects than those they were taken from, those objects. A
                snapshot that was loaded from a file restores what is given here, and the shared random generators.

        Raises:
            RestoreError: some do not fit; every difference is listed. Nothing was changed.
            InputError: there is no such part, or no object to restore into.
        """
        self.wait()
        parts = dict(self._parts)
        for name, target in objects.items():
            part = part_for(self._named(name), target)
            kind = self._saved[name].kind
            if part.kind != kind:
                got = f"{DESCRIBED[part.kind]}: {type(target).__name__}"
                raise InputError(f"`{name}` was taken from {DESCRIBED[kind]}; got {got}")
            parts[name] = part
        if parts and RNG in self._saved and RNG not in parts:
            parts[RNG] = SharedRandomPart(RNG, None)
        if not parts:
            names = ", ".join(f"{name}=…" for name in self._saved if name != "rng")
            raise InputError(f"this snapshot has no live objects: say which, as in restore({names})")
        with torch.inference_mode(False):
            restore([(part, self._own_state(name)) for name, part in parts.items() if name in self._saved])

    def build(self, /, **factories: Callable[..., Any]) -> Any:
        """Fresh objects with the snapshot's state, which share nothing with the run.

        Args:
            factories: for each part that is wanted, what makes such an object. A factory that has a parameter
                named as another part gets the object built for that one:
                `snapshot.build(model=Net, optimizer=lambda model: AdamW(model.parameters()))`.

        Returns:
            The object; a dict of them where several are asked for.

        Raises:
            InputError: there is no such part, or a factory made something else.
            RestoreError: what it made does not fit the state.
        """
        self.wait()
        for name in factories:
            self._named(name)
        with torch.inference_mode(False):
            return build(factories, {name: (self._saved[name].kind, self._own_state(name)) for name in factories})

    # --- files -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the snapshot as the directory `path`: safetensors for tensors, JSON for everything else.

        What was saved there before is replaced at one moment, when all is on the disk: whenever the program is
        killed, the old snapshot is whole, or the new one. `safetensors.torch.load_file` of `model.safetensors` in
        it gives the `state_dict` of the part `model`.

        The four questions: no storage is shared with the files. There is no graph. It waits for bytes that are on
        their way, for devices, and for the disk. No input is changed; lazy tensors stay lazy.

        Args:
            path: of a directory, new or saved to before. Its parent has to be there.

        Raises:
            InputError: JSON and safetensors cannot hold some of the state; everything of the kind is listed. Or
                something else is at `path`. Nothing was written.
            OSError: the system could not write. What was there before is there still.
        """
        from .files.saving import save_snapshot

        save_snapshot(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Snapshot:
        """The snapshot that was saved as `path`, every byte of it verified.

        Nothing is unpickled, whatever the files hold. Tensors are in main memory, mapped from the files: they
        take memory of the process when they are copied out. The files may be removed or replaced meanwhile; if they
        are cut off or overwritten in place, the snapshot is lost and says so.

        The four questions: what the snapshot hands out is a copy. There is no graph. It waits for the disk. No
        file is changed, then or later.

        Raises:
            CorruptSnapshotError: a file is missing, or not as it was saved; the message has file and fault.
            InputError: there is nothing at `path`.
        """
        from .files.loading import load_snapshot

        return load_snapshot(path)

    # --- for the rest of this room ---------------------------------------------------------------------------

    def _named(self, name: str | None) -> str:
        if name is None:
            modules = [each for each, saved in self._saved.items() if saved.kind == "module"]
            others = [each for each in self._saved if each != "rng"]
            for names in (modules, others):
                if len(names) == 1:
                    return names[0]
            raise InputError(f"say which part: this snapshot has {', '.join(self._saved) or 'none'}")
        if not isinstance(name, str) or name not in self._saved:
            raise InputError(f"this snapshot has no part {name!r}: it has {', '.join(self._saved) or 'none'}")
        return name

    @functools.cached_property
    def _value_bytes(self) -> int:
        """What it holds beside its tensors."""
        return sum(value_bytes(saved.tree) for saved in self._saved.values())

    def _tensors(self) -> list[Tensor]:
        """The tensors it holds, each once. To be read, never to be written or handed out."""
        return self._held.tensors

    def _own_state(self, name: str) -> Any:
        """The state of a part with the very tensors that the snapshot holds: never to be written or handed out."""
        saved = self._saved[name]
        self.wait()
        return put_together(saved.tree, _Placed(self._held.tensors, self._places))

    def _own_state_dict(self, name: str) -> Any:
        state = self._own_state(name)
        return state["state_dict"] if self._saved[name].kind == "module" else state

    def _named_tensors(self, name: str) -> Iterator[tuple[str, Tensor]]:
        """The tensors of a part with their paths in its state, those that share memory too."""
        held = self._held.tensors
        for place, path in paths(self._saved[name].tree):
            yield path, held[self._places[place]]


class _Placed(Sequence[Tensor]):
    """The held tensors by their places in the trees."""

    def __init__(self, held: Sequence[Tensor], places: Sequence[int]) -> None:
        self._held, self._places = held, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._held[k] for k in self._places[place]]
        return self._held[self._places[place]]
