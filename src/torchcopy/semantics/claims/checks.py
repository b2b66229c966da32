"""The building blocks of the checks: what the probe found, what a program gives, and what takes how long.

A block takes what an article says and returns a check. The check measures, compares and words the evidence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..catalogue import CopyMethod
from ..probe import SourceFacts
from ..sources import SourceKind
from .measurements import Measurements
from .records import Check, Finding, Verdict

GRAD: tuple[SourceKind, ...] = ("non_leaf", "leaf", "parameter")
PLAIN: tuple[SourceKind, ...] = (*GRAD, "no_grad")
LAYOUTS: tuple[SourceKind, ...] = ("no_grad", "transposed", "channels_last", "expanded", "slice")
EVERY: tuple[SourceKind, ...] = (*GRAD, *LAYOUTS)
FOLLOWS_SOURCE: dict[SourceKind, bool] = {kind: kind in GRAD for kind in EVERY}
"""The answer "as the source's", for `requires_grad`."""

_LONGEST = 110
"""Characters of a text that evidence quotes, such as an error message."""

_QUESTIONS = {
    "requires_grad": "`requires_grad`",
    "is_leaf": "is a leaf",
    "graph": "gradients reach the source",
    "gradient_correct": "gradients arrive unchanged",
    "is_source": "is the source itself",
    "shares_memory": "shares memory",
    "shares_version_counter": "shares the version counter",
    "values_kept": "same shape and values",
    "dtype_kept": "same dtype",
    "device_kept": "same device",
    "attributes_kept": "has the attribute set on the source",
    "grad_kept": "has the source's `.grad`",
}
"""What the probe's facts say, in words."""


def verdict_of(agreements: Iterable[bool]) -> Verdict:
    """`holds` where the claim agrees with all that was seen, `does not hold` with none of it, else `depends`."""
    seen = set(agreements)
    return "depends" if len(seen) == 2 else "holds" if seen == {True} else "does not hold"


# --- what a program gives ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Containing:
    """What an article says of a text: that it contains this."""

    part: str

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a text that contains it."""
        return isinstance(other, str) and self.part in other

    __hash__ = None  # type: ignore[assignment]


Program = Callable[[], Mapping[str, object]]
"""Runs an article's example, or one made for the purpose, and names what came out of it."""


def gives(program: Program, said: Mapping[str, object], *, also: Sequence[str] = ()) -> Check:
    """A check of what a program gives against what an article says it gives.

    Args:
        program: names what came out.
        said: for some of these names, what the article says.
        also: names that belong to the evidence and decide nothing.
    """

    def check(_: Measurements) -> Finding:
        found = program()
        agreements = [expected == found[name] for name, expected in said.items()]
        parts = [
            f"{name}: {shown(found[name])}" + ("" if agrees else f" (said: {shown(expected)})")
            for (name, expected), agrees in zip(said.items(), agreements, strict=True)
        ]
        parts += [f"{name}: {shown(found[name])}" for name in also]
        return Finding(verdict_of(agreements), _sentence("; ".join(parts)))

    return check


def outcome(call: Callable[[], object]) -> str:
    """`no error`, or the error that `call` raises, in one line."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # which error comes is what is asked
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}"
    return "no error"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def shown(value: object) -> str:
    """A value in words: `yes` and `no`, plain words as they are, everything else as code."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Containing):
        return f"`…{value.part}…`"
    if isinstance(value, int):
        return f"{value:,}"
    text = value if isinstance(value, str) else repr(value)
    if text and all(character.isalnum() or character in " ,'-" for character in text):
        return text
    text = text.replace("\n", " ")
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rpartition(" ")[0] + " …"
    return f"`` {text} ``" if "`" in text else f"`{text}`"


# --- what the probe found ------------------------------------------------------------------------------------

Answer = bool | Mapping[SourceKind, bool]
"""What an article says of a method: one answer for all kinds of source, or one for each."""


def probed(
    methods: str | CopyMethod | Sequence[str | CopyMethod],
    said: Mapping[str, Answer],
    *,
    on: Sequence[SourceKind] = PLAIN,
    dtypes: Sequence[str] = ("float32",),
) -> Check:
    """A check of what the probe finds against what an article says.

    Args:
        methods: the copy methods the claim is about.
        said: for names of facts (`graph`, `shares_memory`, …), what the article says.
        on: the kinds of source to look at.
        dtypes: the dtypes to look at; kinds that a dtype cannot have are left out.
    """
    entries = (methods,) if isinstance(methods, str | CopyMethod) else tuple(methods)

    def check(measured: Measurements) -> Finding:
        agreements: list[bool] = []
        codes: dict[str, list[str]] = {}
        for entry in entries:
            words: dict[str, list[str]] = {}
            for dtype in dtypes:
                row = measured.facts(entry, dtype)
                kinds = [facts for facts in row.sources if facts.source in on]
                agreements += [_agrees(facts, said) for facts in kinds]
                words.setdefault(_answers(kinds, said, all(kind in on for kind in EVERY)), []).append(dtype)
            answers = [
                word + (f" in {', '.join(names)}" if len(dtypes) > 1 else "") for word, names in words.items()
            ]
            codes.setdefault("; ".join(answers), []).append(f"`{row.method.code}`")
        parts = [f"{', '.join(methods)}: {answer}" for answer, methods in codes.items()]
        return Finding(verdict_of(agreements), ". ".join(parts) + ".")

    return check


def _agrees(facts: SourceFacts, said: Mapping[str, Answer]) -> bool:
    for name, answer in said.items():
        expected = answer if isinstance(answer, bool) else answer[facts.source]
        if facts.error is not None or getattr(facts, name) != expected:
            return False
    return True


def _answers(kinds: Sequence[SourceFacts], said: Iterable[str], everywhere: bool) -> str:
    """The answers in words; kinds of source with the same answers are named together."""
    groups: dict[str, list[str]] = {}
    for facts in kinds:
        if facts.error is not None:
            words = f"raises {shown(facts.error)}"
        else:
            words = ", ".join(f"{_QUESTIONS[name]}: {_word(getattr(facts, name))}" for name in said)
        groups.setdefault(words, []).append(facts.source.replace("_", "-"))
    if everywhere and len(groups) == 1:
        return f"{next(iter(groups))} (every kind of source)"
    return "; ".join(f"{words} ({', '.join(sources)})" for words, sources in groups.items())


def _word(answer: bool | None) -> str:
    return "no answer" if answer is None else shown(answer)


def warns(methods: Sequence[str], said: bool) -> Check:
    """A check of whether methods give a `UserWarning`."""

    def check(measured: Measurements) -> Finding:
        agreements, parts = [], []
        for method in methods:
            row = measured.facts(method)
            given = [any(w.startswith("UserWarning") for w in facts.warnings) for facts in row.sources]
            agreements += [answer == said for answer in given]
            parts.append(f"`{row.method.code}`: a `UserWarning` on {sum(given)} of {len(given)} kinds of source")
        return Finding(verdict_of(agreements), "; ".join(parts) + ".")

    return check


def same_facts(one: str | CopyMethod, other: str | CopyMethod) -> Check:
    """A check that two methods do the same on every kind of source, but for the warnings they give."""

    def check(measured: Measurements) -> Finding:
        rows = measured.facts(one), measured.facts(other)
        names = [f.name for f in dataclasses.fields(SourceFacts) if f.name not in ("source", "warnings")]
        differences: dict[str, list[str]] = {}
        warned = [0, 0]
        for a, b in zip(rows[0].sources, rows[1].sources, strict=True):
            for name in names:
                if getattr(a, name) != getattr(b, name):
                    differences.setdefault(name, []).append(a.source)
            warned = [warned[0] + bool(a.warnings), warned[1] + bool(b.warnings)]
        codes = [f"`{row.method.code}`" for row in rows]
        kinds = len(rows[0].sources)
        words = f"{codes[0]} and {codes[1]}: {len(names)} facts compared on {kinds} kinds of source, "
        if differences:
            words += "different in " + ", ".join(f"`{n}` ({', '.join(k)})" for n, k in differences.items())
        else:
            words += "all the same"
        words += f"; they warn on {warned[0]} and {warned[1]} of them."
        return Finding("does not hold" if differences else "holds", words)

    return check


def both(*checks: Check) -> Check:
    """A check that takes several together: where they disagree, it depends."""

    def check(measured: Measurements) -> Finding:
        findings = [part(measured) for part in checks]
        verdicts = {finding.verdict for finding in findings}
        return Finding(
            verdicts.pop() if len(verdicts) == 1 else "depends",
            " ".join(finding.evidence for finding in findings),
            tuple(ratio for finding in findings for ratio in finding.ratios),
        )

    return check


def differing(methods: Sequence[str], fact: str) -> Check:
    """A check that methods do not all give the same answer on a non-leaf source."""

    def check(measured: Measurements) -> Finding:
        answers: dict[str, list[str]] = {}
        for method in methods:
            row = measured.facts(method)
            answers.setdefault(_word(getattr(row.main, fact)), []).append(f"`{row.method.code}`")
        words = "; ".join(f"{answer} for {', '.join(codes)}" for answer, codes in answers.items())
        return Finding("holds" if len(answers) > 1 else "does not hold", _sentence(f"{_QUESTIONS[fact]}: {words}"))

    return check
