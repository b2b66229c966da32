"""TC2xx: copies that were never needed, told from the table of copies and from what followed upon each."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict

from torch import Tensor

from ... import _torch_private
from ..._tensors import format_bytes, format_seconds
from ..copies import CopyLog
from ..finding_log import FindingLog
from ..naming.expressions import called_name, is_clone_detach
from ..naming.sites import Sites
from ..tracking.storages import WatchedStorages, Write
from .deepcopy_costs import told_costs

_REPEATED_LEAST = 2  # the third conversion of an unchanged tensor is the second that was not needed
_DEEPCOPIES_LEAST = 3
_SYNCS_LEAST, _SYNCS_A_STEP = 100, 16
_SYNCS_BETWEEN_STEPS = 400
_DEVICE_SYNCS_LEAST = 10
_STEPS_A_DEEPCOPY = 8  # what is copied more rarely than that is in no hot loop
_LOOKED_FOR = (
    "looked for: writes by any operation, through any view, by optimizers, and from other threads that were audited"
)


@dataclasses.dataclass
class Counted:
    """Something that one line does again and again."""

    count: int = 0
    bytes: int = 0
    seconds: float = 0.0
    on_device: int = 0
    step: int = -1
    since_step: int = 0
    most_in_a_step: int = 0


class DeepCopied:
    """How often a tensor was deep-copied, by line: hangs on its storage, and goes with it."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times: Counter[int] = Counter()

    def written(self, storage: int, write: Write) -> bool:
        """That makes no difference."""
        del storage, write
        return False

    def gone(self, storage: int) -> None:
        """Nothing more will come."""


class Waste:
    """What is counted for the TC2xx."""

    def __init__(self, findings: FindingLog, sites: Sites, copies: CopyLog, storages: WatchedStorages) -> None:
        self._findings, self._sites, self._copies, self._storages = findings, sites, copies, storages
        self.syncs: dict[int, Counted] = {}
        self._detached: dict[int, Counted] = {}
        self._deepcopies: dict[int, Counted] = {}
        self._most_of_one: Counter[int] = Counter()  # how often a line has deep-copied the same tensor
        self._elsewhere: dict[int, int] = defaultdict(int)  # redundant clones that another code tells of, by line

    # --- while the program runs -----------------------------------------------------------------------------------

    def copied_twice(self, first: int, second: int, size: int, seconds: float) -> None:
        """A copy was made only to be copied."""
        self._elsewhere[first] += 1
        self._findings.add(
            "TC202",
            "a copy of a copy: the first one was made only to be copied again",
            [("copied here", first), ("and copied again here", second)],
            fix="copy once: `.to(device, copy=True)`, or leave out the `clone()`",
            size=size,
            seconds=seconds,
        )

    def cloned_and_detached(self, site: int, size: int) -> None:
        """A clone that is part of a graph was detached by the line `site`, before anything else was done."""
        counted = self._detached.setdefault(site, Counted())
        counted.count += 1
        counted.bytes += size

    def deepcopied(self, site: int, source: Tensor, size: int, seconds: float) -> None:
        """A tensor was deep-copied."""
        counted = self._deepcopies.setdefault(site, Counted())
        counted.count += 1
        counted.bytes += size
        counted.seconds += seconds
        counted.on_device += source.device.type != "cpu"
        known = self._storages.dependents.get(_torch_private.storage_id(source), ())
        deep_copied = next((each for each in known if isinstance(each, DeepCopied)), None)
        if deep_copied is None:
            deep_copied = DeepCopied()
            self._storages.watch(source, deep_copied)
        deep_copied.times[site] += 1
        self._most_of_one[site] = max(self._most_of_one[site], deep_copied.times[site])

    def waited(self, site: int, steps: int, *, on_device: bool) -> None:
        """Numbers of Python's were asked of a tensor, after so many steps of optimizers."""
        counted = self.syncs.setdefault(site, Counted())
        counted.count += 1
        counted.on_device += on_device
        if counted.step != steps:
            counted.step, counted.since_step = steps, 0
        counted.since_step += 1
        counted.most_in_a_step = max(counted.most_in_a_step, counted.since_step)

    # --- at the end -----------------------------------------------------------------------------------------------

    def finish(self, steps: int) -> None:
        """Reports what the sums say."""
        least = max(_DEEPCOPIES_LEAST, steps // _STEPS_A_DEEPCOPY)
        deep = {site for site, most in self._most_of_one.items() if most >= least}
        for site in deep:
            counted = self._deepcopies[site]
            calls = self._most_of_one[site]
            is_here = not counted.on_device and counted.bytes > 0
            costs = (
                told_costs(max(1, counted.count // calls), counted.bytes // calls, counted.seconds / calls)
                if is_here
                else None
            )
            self._findings.add(
                "TC208",
                f"`copy.deepcopy` of the same tensors {calls} times: {format_bytes(counted.bytes)} in "
                f"{format_seconds(counted.seconds)}",
                [("deep-copied here", site)],
                fix="`torchcopy.History` keeps snapshots in memory that it uses again; `torchcopy.copy` copies at"
                " the speed of memory",
                notes=[] if costs is None else [costs],
                size=counted.bytes,
                seconds=counted.seconds,
                count=calls,
            )
        self._clones_in_graphs()
        deep |= self._tensors_from_tensors()
        self._redundant_clones(deep)
        self._repeated_conversions()
        self._syncs(steps)

    def _clones_in_graphs(self) -> None:
        for site, counted in self._detached.items():
            if is_clone_detach(self._sites.call(site)):
                self._findings.add(
                    "TC203",
                    "`clone().detach()` makes a node of a graph that is thrown away at once",
                    [("cloned and detached here", site)],
                    fix="detach first: `.detach().clone()`",
                    size=counted.bytes,
                    count=counted.count,
                )

    def _tensors_from_tensors(self) -> set[int]:
        """`torch.tensor(t)` and `t.new_tensor(t)`: they run as any other copy does, so the source has to tell."""
        found = set()
        for (site, kind), tally in self._copies.tallies.items():
            if kind in ("into", "serialisation") or not self._sites.is_direct(site):
                continue
            name = called_name(self._sites.call(site))
            if name not in ("tensor", "new_tensor") or not tally.of_detached:
                continue
            found.add(site)
            self._findings.add(
                "TC204",
                f"`{name}` of a tensor: it copies, detaches, and says neither",
                [("copied here", site)],
                fix="say what is meant: `t.detach().clone()`, or `t.to(…)`",
                size=tally.bytes,
                seconds=tally.seconds,
                count=tally.of_detached,
            )
        return found

    def _redundant_clones(self, told: set[int]) -> None:
        for (site, kind), tally in self._copies.tallies.items():
            count = tally.counts["redundant"] - self._elsewhere.get(site, 0)
            if kind != "clone" or count <= 0 or tally.counts["needed"] or site in told:
                continue
            if not self._sites.is_direct(site):
                continue
            if not tally.of_detached and called_name(self._sites.call(site)) == "tensor":
                continue  # of an array or a list: what may be written there is not seen
            total = tally.counts["redundant"]
            self._findings.add(
                "TC201",
                "this copy was not needed: neither it nor its source was written while both were there",
                [("copied here", site)],
                fix="leave the copy out: `detach()` where only the graph was to be cut, else the tensor itself",
                notes=[_LOOKED_FOR],
                size=tally.status_bytes["redundant"] * count // total,
                seconds=tally.status_seconds["redundant"] * count / total,
                count=count,
            )

    def _repeated_conversions(self) -> None:
        for (site, kind), tally in self._copies.tallies.items():
            count = tally.counts["repeated"]
            if count < _REPEATED_LEAST or not self._sites.is_direct(site):
                continue
            self._findings.add(
                "TC205",
                f"the same unchanged tensor is copied again and again ({kind})",
                [("converted here", site)],
                fix="convert it once, before the loop, and keep the result",
                size=tally.status_bytes["repeated"],
                seconds=tally.status_seconds["repeated"],
                count=count,
            )

    def _syncs(self, steps: int) -> None:
        for site, counted in self.syncs.items():
            least = _DEVICE_SYNCS_LEAST if counted.on_device else max(_SYNCS_LEAST, _SYNCS_A_STEP * steps)
            hot = counted.count >= least or counted.most_in_a_step >= _SYNCS_BETWEEN_STEPS
            if hot and self._sites.is_direct(site):
                self._findings.add(
                    "TC207",
                    "a number is asked of a tensor again and again: the program waits for each",
                    [("waits here", site)],
                    fix="work with whole tensors, and ask once: `tensor.tolist()`, or sum first",
                    count=counted.count,
                )
