"""An old bench beside a new one: what got slower or faster, beyond noise.

Times are first divided by the limit that the same run measured, so that a slower machine is not a finding; for
results that are no copy, by the limit of the smallest size, which is the price of a call. A change counts when
it is more than 10 %, the quartiles of old and new lie apart, those of the limits included, and, on the very same
machine, the plain times say so too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from .._errors import InputError
from ..semantics.timing import Timing
from .records import BenchReport, Key, Measurement

Verdict = Literal["slower", "raises", "faster", "same", "new", "gone"]

SMALLEST_CHANGE = 1.10
_ORDER: tuple[Verdict, ...] = ("raises", "slower", "faster", "gone", "new", "same")


@dataclasses.dataclass(frozen=True)
class Change:
    """One method on one source of one size, then and now.

    Attributes:
        method: id of the method.
        source: what was copied.
        numel: number of elements.
        verdict: `slower` and `faster` beyond noise, `raises` where it did not before, `new` and `gone` where only
            one report has it, else `same`.
        ratio: new time over old time, each as a multiple of the limit in its own run; None without two times.
        old_seconds: median time then.
        new_seconds: median time now.
        note: what else there is to say, such as why it was not timed.
    """

    method: str
    source: str
    numel: int
    verdict: Verdict
    ratio: float | None = None
    old_seconds: float | None = None
    new_seconds: float | None = None
    note: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What changed between two benches.

    Attributes:
        same_machine: whether versions and hardware are the same in both.
        changes: a record for each method, source and size in either; what needs attention first.
    """

    same_machine: bool
    changes: tuple[Change, ...]

    @property
    def slower(self) -> tuple[Change, ...]:
        """What got slower beyond noise, or raises now: the findings."""
        return tuple(change for change in self.changes if change.verdict in ("slower", "raises"))

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {
            "same_machine": self.same_machine,
            "slower": len(self.slower),
            "changes": [change.to_dict() for change in self.changes],
        }


def load_report(path: Path) -> BenchReport:
    """The report in a file that `torchcopy bench --json FILE` wrote.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r} ({error.strerror}): give a result to compare with") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{str(path)!r} is not JSON: give a file that `torchcopy bench --json FILE` wrote"
        ) from error
    try:
        return BenchReport.from_dict(data)
    except InputError as error:
        raise InputError(f"cannot compare with {str(path)!r}: {error}") from error


def check_comparable(
    old: BenchReport, *, kind: str, subject: str, device: str, dtype: str, keys: Iterable[Key] | None = None
) -> None:
    """Refuses an old report that says nothing about what is going to be measured.

    Raises:
        InputError: it is of another kind, device or dtype, or has no method, source and size in common.
    """
    if old.kind != kind:
        raise InputError(
            f"the old result measured a {old.kind} bench, this is a {kind} bench: compare like with like"
        )
    if kind == "model" and old.subject != subject:
        raise InputError(
            f"the old result measured model {old.subject!r}, this bench {subject!r}: compare one with itself"
        )
    for what, then, now in (("device", old.device, device), ("dtype", old.dtype, dtype)):
        if then != now:
            raise InputError(f"the old result has {what} {then}, this bench {now}: measure with `--{what} {then}`")
    if keys is not None and not {m.key for m in old.measurements} & set(keys):
        raise InputError(
            "the old result has no method, source and size in common with this bench: choose the same ones"
        )


def compare(old: BenchReport, new: BenchReport) -> Comparison:
    """Says what got slower or faster from `old` to `new`, beyond noise. Reads records only.

    Raises:
        InputError: the reports are of different kind, device or dtype, or have nothing in common.
    """
    keys = [m.key for m in new.measurements]
    check_comparable(old, kind=new.kind, subject=new.subject, device=new.device, dtype=new.dtype, keys=keys)
    same_machine = old.machine == new.machine
    then: Mapping[Key, Measurement] = {m.key: m for m in old.measurements}
    now: Mapping[Key, Measurement] = {m.key: m for m in new.measurements}
    call_price = _call_prices(old, new)
    changes = [_change(old, new, m, then.get(key), call_price, same_machine) for key, m in now.items()]
    changes += [_gone(m) for key, m in then.items() if key not in now]
    return Comparison(
        same_machine, tuple(sorted(changes, key=lambda c: (_ORDER.index(c.verdict), -(c.ratio or 0))))
    )


def _change(
    old: BenchReport,
    new: BenchReport,
    now: Measurement,
    then: Measurement | None,
    call_price: Mapping[str, tuple[Timing, Timing]],
    same_machine: bool,
) -> Change:
    place = now.method, now.source, now.numel
    if then is None:
        return Change(*place, "new", new_seconds=_median(now))
    seconds = _median(then), _median(now)
    if now.error is not None and then.error is None:
        return Change(*place, "raises", None, *seconds, note=now.error)
    if now.timing is None or then.timing is None:
        verdict: Verdict = "gone" if then.timing else "new" if now.timing else "same"
        return Change(*place, verdict, None, *seconds, note=now.skipped or now.error)
    if now.is_copy:
        limits = old.limit(now.source, now.numel), new.limit(now.source, now.numel)
        units = (limits[0].timing, limits[1].timing) if limits[0] and limits[1] else None
    else:
        units = call_price.get(now.source)
    if units is None:
        return Change(*place, "same", None, *seconds, note="no limit was measured in both, so it is not judged")
    before, after = _in_units(then.timing, units[0]), _in_units(now.timing, units[1])
    ratio = after.median_seconds / before.median_seconds
    verdict = _verdict(before, after)
    if same_machine and verdict != _verdict(then.timing, now.timing):
        verdict = "same"
    return Change(*place, verdict, ratio, *seconds)


def _gone(m: Measurement) -> Change:
    return Change(m.method, m.source, m.numel, "gone", old_seconds=_median(m), note="not asked for this time")


def _call_prices(old: BenchReport, new: BenchReport) -> dict[str, tuple[Timing, Timing]]:
    """For each source, the limits then and now at the smallest size that both have."""
    prices = {}
    for source in new.sources:
        then = {limit.numel: limit.timing for limit in old.limits if limit.source == source}
        now = {limit.numel: limit.timing for limit in new.limits if limit.source == source}
        if common := then.keys() & now.keys():
            prices[source] = then[min(common)], now[min(common)]
    return prices


def _in_units(timing: Timing, unit: Timing) -> Timing:
    """A time as multiples of a unit; what either is unsure of, the result is."""
    return Timing(
        timing.median_seconds / unit.median_seconds,
        timing.low_seconds / unit.high_seconds,
        timing.high_seconds / unit.low_seconds,
        timing.runs,
    )


def _verdict(before: Timing, after: Timing) -> Verdict:
    ratio = after.median_seconds / before.median_seconds
    if ratio > SMALLEST_CHANGE and after.low_seconds > before.high_seconds:
        return "slower"
    if ratio < 1 / SMALLEST_CHANGE and after.high_seconds < before.low_seconds:
        return "faster"
    return "same"


def _median(m: Measurement) -> float | None:
    return None if m.timing is None else m.timing.median_seconds
