"""A history: snapshots of a run, taken while it goes on."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import torch
from torch import Tensor

from .._errors import CopyError, InputError, StagingError
from .._plots import plot_history
from .._tensors import format_bytes
from ..copying.collector import no_collection
from ..semantics.sources import parse_device
from .held_bytes import held_bytes, storages_of
from .held_tensors import HeldTensors, Layout, Returned
from .labels import checked_label
from .overview import TakenSnapshot
from .parts.optimizer import OptimizerPart
from .parts.part import Part
from .parts.random_numbers import RNG, SharedRandomPart
from .parts.recognising import part_for
from .places import Places
from .records import HistoryReport, report_on_history
from .retention import Goal, best_of, bests, kept, parse_keep, parse_keep_best, parse_max_bytes
from .snapshot import SavedPart, Snapshot
from .state_trees import take_apart
from .taking.background import StagingJob
from .taking.eager import layout_of, take_eager
from .taking.lazy import take_lazy
from .taking.stager import stager

if TYPE_CHECKING:
    from .._plots import Figure

Mode = Literal["eager", "lazy", "background"]
_REMEMBERED = 100_000  # labels of so many snapshots, for the curves of a plot


class History:
    """Snapshots of a run: its model, its optimizer, whatever belongs to it, as they were at some moments.

    `take` makes one, `Snapshot.restore` brings the run back to it. The newest are kept, and the best by a metric.

    The four questions, of `take`: is storage shared? In the eager mode no; in the other two with the live tensors,
    until somebody writes or the bytes have been moved; no write is ever seen on the other side. Is the graph kept?
    No. Does it synchronise? The eager mode waits for the devices that it copies from. Is an input changed? No, nor
    its version counters; in the lazy and background modes its storages become copy-on-write.

    Args:
        keep: how many of the newest snapshots are kept; None for all.
        keep_best: the metrics by which the best snapshot is kept too: `{"val_loss": "min", "accuracy": "max"}`.
        mode: `"eager"`: bytes are copied before `take` returns. `"lazy"`: they are copied when somebody writes, and
            what nobody writes is shared by all snapshots. `"background"`: a thread copies them.
        rng: whether the state of the shared random generators is a part, `"rng"`.
        max_bytes: how much memory the snapshots may hold. The oldest go first, those that are the best by a metric
            last; the newest stays.
        device: where the bytes go; None for where they are.
        objects: the parts of the run, each under a name of its own: modules, optimizers, anything with `state_dict`
            and `load_state_dict`, random generators, tensors, dicts and lists of tensors and values.

    Raises:
        InputError: an option has no such value, or an object has no state.

    Example:
        >>> import torch, torchcopy as tc
        >>> model = torch.nn.Linear(2, 1)
        >>> history = tc.History(model=model, keep_best={"val_loss": "min"})
        >>> _ = history.take(step=0, val_loss=0.5)
        >>> with torch.no_grad():
        ...     _ = model.weight.zero_()
        >>> history.best("val_loss").restore()
        >>> bool((model.weight == 0).all())
        False
    """

    def __init__(
        self,
        /,
        *,
        keep: int | None = 10,
        keep_best: dict[str, Goal] | None = None,
        mode: Mode = "eager",
        rng: bool = True,
        max_bytes: int | None = None,
        device: str | torch.device | None = None,
        **objects: Any,
    ) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"`mode` must be one of {', '.join(map(repr, get_args(Mode)))}; got {mode!r}")
        if not isinstance(rng, bool):
            raise InputError(f"`rng` must be True or False; got {rng!r}")
        if rng and RNG in objects:
            raise InputError(f"`{RNG}` is the part of the shared random generators: name yours otherwise")
        self.keep, self.keep_best = parse_keep(keep), parse_keep_best(keep_best)
        self.max_bytes, self.mode = parse_max_bytes(max_bytes), mode
        self.device = None if device is None else parse_device(device)
        if mode == "lazy" and self.device is not None:
            raise InputError("the lazy mode moves no bytes: use mode='background' or 'eager' with `device`")
        parts = [part_for(name, target) for name, target in objects.items()]
        parts.sort(key=lambda part: part.kind == "generator")  # last, as data loaders draw when they are asked
        self._parts: dict[str, Part] = {part.name: part for part in parts}
        if rng:
            self._parts[RNG] = SharedRandomPart(RNG, None)
        if not objects:
            raise InputError("a history needs something to take: History(model=model, optimizer=optimizer)")
        self._warn_of_parameters_left_out()
        self._snapshots: list[Snapshot] = []
        self._taken: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_REMEMBERED)
        self._count = 0
        self._returned = Returned()
        self._lock = threading.RLock()
        self._places = Places()
        self._told = False

    def _warn_of_parameters_left_out(self) -> None:
        """An optimizer's state does not have its parameters: they are restored with the part that has them."""
        held: list[Tensor] = []
        for name, part in self._parts.items():
            if part.kind == "module":
                held += part.gradients_of()
            elif part.kind == "values":
                take_apart(part.state(), held, name)
        known = set(map(id, held))
        for name, part in self._parts.items():
            if known and isinstance(part, OptimizerPart):
                lost = sum(id(p) not in known for p in part.gradients_of())
                if lost:
                    warnings.warn(
                        f"{lost} parameters of `{name}` are in no part of this history, and will not be restored: "
                        "give what has them, a module or a list of tensors",
                        stacklevel=3,
                    )

    # --- taking ------------------------------------------------------------------------------------------------

    def take(self, /, **labels: Any) -> Snapshot:
        """Takes a snapshot now.

        Args:
            labels: what to know it by, and its metrics: `take(step=100, val_loss=0.31)`. Tensors and arrays of one
                number become that number.

        Returns:
            The snapshot.

        Raises:
            InputError: a label is no number, string or None, or a part's state cannot be read.
            StagingError: the bytes of an earlier snapshot could not be moved. That one is gone, this one not taken.
        """
        with self._lock, no_collection(), torch.inference_mode(False):  # nothing that is made here is garbage
            if not self._parts:
                raise InputError(
                    "this history has no live objects: load it with them, History.load(path, model=model)"
                )
            checked = {name: checked_label(name, value) for name, value in labels.items()}
            self._at_safe_point()
            tensors: list[Tensor] = []
            with torch.no_grad():
                saved = {
                    name: SavedPart(part.kind, take_apart(part.state(), tensors, name))
                    for name, part in self._parts.items()
                }
            once, places = self._places.each_once(tensors)
            held = HeldTensors([], self._returned, lazy=self.mode != "eager")
            snapshot = Snapshot(
                labels=checked,
                number=self._count,
                mode=self.mode,
                saved=saved,
                places=places,
                held=held,
                parts=self._parts,
            )
            self._fill(snapshot, held, once)
            self._count += 1
            self._taken.append((snapshot.number, snapshot.labels))
            self._keep_within_bytes()
            return snapshot

    def _at_safe_point(self) -> None:
        """Lets go of lazy clones that are not needed any more; tells what went wrong in the background."""
        self._returned.thread = threading.get_ident()
        self._returned.let_go()
        stager.let_go()
        for snapshot in self._snapshots:
            job = snapshot._staging
            if job is not None and job.is_done and job.error is not None:
                self._snapshots.remove(snapshot)
                job.check()

    def _fill(self, snapshot: Snapshot, held: HeldTensors, live: list[Tensor]) -> None:
        """Gives the snapshot its tensors, and a place in the history; those that are not kept go."""
        staying = kept([*self._snapshots, snapshot], self.keep, self.keep_best)
        if self.mode == "lazy":
            take_lazy(live, self._snapshots[-1]._held if self._snapshots else None, held)
            with self._returned.at_next_step():
                self._snapshots = staying
            return
        layout = layout_of(live)
        if self._snapshots and self._snapshots[-1]._held.layout == layout:
            layout = self._snapshots[-1]._held.layout  # one for all of them
        if self.mode == "background":
            self._stage(snapshot, held, live, staying, layout)
        else:
            known = set(map(id, staying))
            if any(each._held.fits(layout) and id(each) not in known for each in self._snapshots):
                self._snapshots = staying[:-1]  # what is written next is gone, even if that is interrupted
            held.tensors = take_eager(live, self._returned.buffers(layout), self.device)
            held.layout = layout
            self._snapshots = staying

    def _stage(
        self,
        snapshot: Snapshot,
        held: HeldTensors,
        live: list[Tensor],
        staying: list[Snapshot],
        layout: Layout | None,
    ) -> None:
        job = StagingJob(live, held, self.device)
        held.layout = layout
        snapshot._staging = job
        self._snapshots = staying
        job.write_into(self._returned.buffers(layout))
        stager.submit(job)

    def _keep_within_bytes(self) -> None:
        limit = self.max_bytes
        if limit is None:
            return
        live = self._live_addresses()
        while len(self._snapshots) > 1 and self._bytes_beside(live) > limit:
            best = set(map(id, bests(self._snapshots, self.keep_best)))
            old = self._snapshots[:-1]
            self._snapshots.remove(next((each for each in old if id(each) not in best), old[0]))
        alone = self._bytes_beside(live)
        if not self._told and alone > limit:
            self._told = True
            warnings.warn(
                f"the newest snapshot alone holds {format_bytes(alone)}, more than max_bytes={format_bytes(limit)}",
                stacklevel=3,
            )

    # --- what there is -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(tuple(self._snapshots))

    @overload
    def __getitem__(self, index: int) -> Snapshot: ...
    @overload
    def __getitem__(self, index: slice) -> list[Snapshot]: ...
    def __getitem__(self, index: int | slice) -> Snapshot | list[Snapshot]:
        try:
            return self._snapshots[index]
        except IndexError:
            raise IndexError(f"there is no snapshot {index}: the history has {len(self)}") from None

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CopyError("a history is bound to its run: `history.save(path)` writes it, `fork` copies the run")

    def __repr__(self) -> str:
        return f"<History of {', '.join(self._parts)}: {len(self)} snapshots, {self.mode}>"

    def best(self, metric: str, goal: Goal | None = None) -> Snapshot:
        """The kept snapshot with the best value of a metric; the first of those that are equal.

        Args:
            metric: a label of the snapshots.
            goal: `"min"` or `"max"`; None for what `keep_best` says.

        Raises:
            InputError: nobody said what is best, or no snapshot has a number there.
        """
        if not isinstance(metric, str):
            raise InputError(f"`metric` must be the name of a label, such as 'val_loss'; got {metric!r}")
        goal = goal or self.keep_best.get(metric)
        if goal not in ("min", "max"):
            raise InputError(f"say what is best: history.best({metric!r}, 'min') or 'max'; got {goal!r}")
        found = best_of(self._snapshots, metric, goal)
        if found is None:
            known = sorted({name for each in self._snapshots for name in each.metrics})
            raise InputError(
                f"no snapshot has a number for {metric!r}: there are {', '.join(map(repr, known)) or 'no metrics'}"
            )
        return found

    def at(self, /, **labels: Any) -> Snapshot:
        """The newest snapshot with these labels: `history.at(step=100)`.

        Raises:
            InputError: none has them, or none were given.
        """
        if not labels:
            raise InputError("say which snapshot, as in history.at(step=100)")
        labels = {name: checked_label(name, value) for name, value in labels.items()}
        for snapshot in reversed(self._snapshots):
            if all(name in snapshot.labels and snapshot.labels[name] == value for name, value in labels.items()):
                return snapshot
        wanted = ", ".join(f"{name}={value!r}" for name, value in labels.items())
        there = "; ".join(
            ", ".join(f"{name}={each.labels[name]!r}" for name in labels if name in each.labels) or "no such label"
            for each in self._snapshots
        )
        raise InputError(f"no snapshot has {wanted}: there are {there or 'none'}")

    @property
    def records(self) -> tuple[TakenSnapshot, ...]:
        """Number and labels of all snapshots that were taken, also of those that are not kept any more."""
        here = {each.number for each in self._snapshots}
        return tuple(TakenSnapshot(number, dict(labels), number in here) for number, labels in self._taken)

    @property
    def nbytes(self) -> int:
        """Bytes that the snapshots hold: shared ones once, and those that live tensors have not at all."""
        return self._bytes_beside(self._live_addresses())

    def _bytes_beside(self, live: set[int]) -> int:
        values = sum(each._value_bytes for each in self._snapshots)
        return values + held_bytes((each._tensors() for each in self._snapshots), live)

    def report(self) -> HistoryReport:
        """What each snapshot holds, and all of them together."""
        return report_on_history(self.mode, self._snapshots, self.keep_best, self._live_addresses())

    def _live_addresses(self) -> set[int]:
        """Where the live tensors' bytes are; empty in the eager mode, which shares none.

        Others than these are not asked: to read the state of a data loader may draw random numbers.
        """
        if self.mode == "eager":
            return set()
        tensors: list[Tensor] = []
        with torch.no_grad():
            for name, part in self._parts.items():
                if part.kind in ("module", "optimizer", "values", "tensor"):
                    take_apart(part.state(), tensors, name)
        return set(storages_of(tensors))

    # --- what is done with them ----------------------------------------------------------------------------------

    def wait(self) -> None:
        """Returns when the bytes of all snapshots are where they are to be.

        Raises:
            StagingError: some could not be moved. Their snapshots are gone.
        """
        failed: StagingError | None = None
        for snapshot in tuple(self._snapshots):
            try:
                snapshot.wait()
            except StagingError as error:
                failed = failed or error
                with contextlib.suppress(ValueError):
                    self._snapshots.remove(snapshot)
        self._returned.let_go()
        if failed is not None:
            raise failed

    def plot(self, path: str | Path | None = None, *, part: str | None = None) -> Figure:
        """Draws the metrics over the steps, and below them how far the weights of each layer moved.

        Kept snapshots have a dot, the best a star. The heatmap has a column for each step from one kept snapshot to
        the next: the L2 norm of a layer's change over that of the layer before, on a log scale. Needs matplotlib:
        `pip install 'torchcopy[plots]'`. Nothing is changed; it waits for bytes that are still on their way.

        Args:
            path: a .png or .svg file to write too.
            part: whose weights the heatmap shows; None for all modules.

        Raises:
            InputError: there is nothing to draw, no such part, no matplotlib, or the file cannot be written.
        """
        return plot_history(self, path, part)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the history as the directory `path`: each snapshot as `Snapshot.save` does, beside a list of them.

        Snapshots that are there already are read and verified, not written again, and those that the history does
        not have any more are removed. Whenever the program is killed, what can be loaded is the history as it was,
        or as it is now. It waits for bytes that are still on their way. Other threads may take snapshots meanwhile.

        Args:
            path: of a directory, new or saved to before. Its parent has to be there.

        Raises:
            InputError: a state cannot be saved; everything of the kind is listed. Or something else is at `path`.
            StagingError: the bytes of a snapshot could not be moved.
            OSError: the system could not write. What was there before is there still.
        """
        from .files.histories import save_history

        save_history(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], /, **objects_and_options: Any) -> Self:
        """The history that was saved as `path`, every byte of it verified; see `Snapshot.load`.

        Args:
            path: the directory.
            objects_and_options: the live objects that its snapshots are restored into, under the names of their
                parts, and options where they are to be others than those that were saved. Without objects the
                history is there to look at, to build from, and not to take.

        Raises:
            CorruptSnapshotError: a file is missing, or not as it was saved; the message has file and fault.
            InputError: there is nothing at `path`, or an object is not what a part was taken from.
        """
        from .files.histories import load_history

        return load_history(cls, path, objects_and_options)

    def remove(self, snapshot: Snapshot) -> None:
        """Takes a snapshot out of the history.

        Raises:
            InputError: it is not in it.
        """
        with self._lock:
            if snapshot not in self._snapshots:
                raise InputError(f"{snapshot!r} is not in this history")
            self._snapshots.remove(snapshot)

    def clear(self) -> None:
        """Takes all snapshots out of the history, their records too, and gives their memory back."""
        with self._lock:
            self._snapshots = []
            self._taken.clear()
            self._returned.clear()
