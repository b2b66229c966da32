"""The building blocks of the checks that times decide: ratios, each measured in one run, with its spread."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from ..timing import Comparison, TimeRatio
from .measurements import LARGE, SIZES, SMALL, Measurements, TimedSource
from .records import Check, Finding, MeasuredRatio, Verdict

Place = Literal["inside", "outside", "too close to call"]


# --- deciding ------------------------------------------------------------------------------------------------


def decide_order(ratios: Sequence[TimeRatio], said: Comparison) -> Verdict:
    """Whether ratios lie where an article says: above 1 ("slower"), below ("faster") or too close to tell.

    Where an order is claimed, a ratio too close to call leaves the claim open: it depends.
    """
    seen = [ratio.compared_with(1.0) for ratio in ratios]
    if all(comparison == said for comparison in seen):
        return "holds"
    if said in seen or (said != "too close to call" and "too close to call" in seen):
        return "depends"
    return "does not hold"


def place_of(ratio: TimeRatio, low: float, high: float) -> Place:
    """Where a ratio lies with regard to a range: `inside`, `outside`, or too close to one of its ends."""
    above_low, below_high = ratio.compared_with(low), ratio.compared_with(high)
    if above_low == "faster" or below_high == "slower":
        return "outside"
    return "inside" if (above_low, below_high) == ("slower", "faster") else "too close to call"


def decide_range(ratios: Sequence[TimeRatio], low: float, high: float) -> Verdict:
    """Whether ratios lie between `low` and `high`; one too close to an end leaves it open: it depends."""
    places = {place_of(ratio, low, high) for ratio in ratios}
    if places == {"inside"}:
        return "holds"
    return "does not hold" if places == {"outside"} else "depends"


def decide_growth(first: TimeRatio, last: TimeRatio) -> Verdict:
    """Whether the second ratio is larger than the first; quartiles that overlap leave it open: it depends."""
    if last.low > first.high:
        return "holds"
    return "does not hold" if last.high < first.low else "depends"


# --- checks --------------------------------------------------------------------------------------------------


def takes(
    pairs: Sequence[tuple[str, str]],
    said: Comparison,
    *,
    source: TimedSource = "no_grad",
    sizes: Sequence[int] = SIZES,
) -> Check:
    """A check that, of each pair of methods, the first is `said` compared with the second, at each size."""

    def check(measured: Measurements) -> Finding:
        ratios = _ratios(measured, pairs, sizes, source)
        return _finding(decide_order([r.ratio for r in ratios], said), ratios, _comparison)

    return check


def takes_times(
    pairs: Sequence[tuple[str, str]], low: float, high: float, *, sizes: Sequence[int] = SIZES
) -> Check:
    """A check that, of each pair of methods, the first takes `low` to `high` times as long as the second."""

    def check(measured: Measurements) -> Finding:
        def place(ratio: TimeRatio) -> str:
            words = place_of(ratio, low, high)
            return words if words == "too close to call" else f"{words} {low:g} to {high:g}"

        ratios = _ratios(measured, pairs, sizes, "no_grad")
        return _finding(decide_range([r.ratio for r in ratios], low, high), ratios, place)

    return check


def gap_grows(pairs: Sequence[tuple[str, str]]) -> Check:
    """A check that the ratio of each pair is larger at the largest size than at the smallest."""

    def check(measured: Measurements) -> Finding:
        ratios = _ratios(measured, pairs, (SMALL, LARGE), "no_grad")
        verdicts = {decide_growth(a.ratio, b.ratio) for a, b in zip(ratios[::2], ratios[1::2], strict=True)}
        return _finding(verdicts.pop() if len(verdicts) == 1 else "depends", ratios, _comparison)

    return check


def model_copy_slower(models: Sequence[tuple[int, int]]) -> Check:
    """A check that `copy.deepcopy` of a model takes longer than cloning its tensors; `(layers, width)` each."""

    def check(measured: Measurements) -> Finding:
        ratios = tuple(measured.model_ratio(layers, width) for layers, width in models)
        return _finding(decide_order([r.ratio for r in ratios], "slower"), ratios, _comparison)

    return check


def extra_time_is_checking(measured: Measurements) -> Finding:
    """Whether what `torch.tensor(t)` takes longer than `detach().clone()` goes into checks and conversion.

    Measured at the smallest size, where the extra time weighs most: `torch.as_tensor`, which checks the same and
    copies nothing; `to(copy=True)`, which copies by way of the conversion, less the copy itself; and a warning
    that was shown before, as a third part, which the article does not name.
    """
    whole = measured.ratio("tensor", "detach_clone", numel=SMALL)
    checking = measured.ratio_to_clone("torch.as_tensor(t)", torch.as_tensor, numel=SMALL)
    converting = measured.ratio_to_clone(
        "t.detach().to(t.device, copy=True)", lambda t: t.detach().to(t.device, copy=True), numel=SMALL
    )
    warning = measured.ratio_to_clone("warnings.warn('')", lambda _: warnings.warn("", stacklevel=1), numel=SMALL)
    extra = whole.ratio.median - 1
    named = checking.ratio.median + max(converting.ratio.median - 1, 0)
    ratios = (whole, checking, converting, warning)
    evidence = _words(ratios, lambda _: "")
    if extra < 0.03:
        return Finding("depends", f"{evidence} There is hardly any extra time to explain.", ratios)
    share, warned = named / extra, warning.ratio.median / extra
    verdict: Verdict = "holds" if share > 0.7 else "does not hold" if share < 0.3 else "depends"
    evidence += (
        f" Of the extra {extra:.2f}, checks and conversion account for {min(share, 1):.0%}; a Python warning "
        f"alone would for {min(warned, 1):.0%}."
    )
    return Finding(verdict, evidence, ratios)


# --- words ---------------------------------------------------------------------------------------------------


def _ratios(
    measured: Measurements, pairs: Sequence[tuple[str, str]], sizes: Sequence[int], source: TimedSource
) -> tuple[MeasuredRatio, ...]:
    return tuple(measured.ratio(call, base, numel=numel, source=source) for call, base in pairs for numel in sizes)


def _comparison(ratio: TimeRatio) -> str:
    return ratio.compared_with(1.0)


def _finding(verdict: Verdict, ratios: Sequence[MeasuredRatio], word: Callable[[TimeRatio], str]) -> Finding:
    return Finding(verdict, _words(ratios, word), tuple(ratios))


def _words(ratios: Sequence[MeasuredRatio], word: Callable[[TimeRatio], str]) -> str:
    groups: dict[str, list[str]] = {}
    for measured in ratios:
        judged = word(measured.ratio)
        line = f"{measured.source}: {measured.ratio}" + (f", {judged}" if judged else "")
        groups.setdefault(f"Time of `{measured.call}` over that of `{measured.base}`, one thread", []).append(line)
    return " ".join(f"{pair}: {'; '.join(lines)}." for pair, lines in groups.items())
