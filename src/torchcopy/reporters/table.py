"""How the truth table is shown: terminal and Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..semantics.probe import MethodFacts, SourceFacts
from ..semantics.sources import DESCRIPTIONS
from .terminal import console, yes_no

_MARKDOWN_HEAD = (
    "method",
    "code",
    "requires_grad",
    "graph",
    "shares_memory",
    "version counter",
    "allocates",
    "notes",
)


def show(rows: Sequence[MethodFacts]) -> None:
    """Prints the table; a single method in full, on every kind of source."""
    out = console()
    if len(rows) == 1:
        _show_one(out, rows[0])
    else:
        _show_all(out, rows)


_ANSWERS = ("requires\ngrad", "graph", "shares\nmemory", "version\ncounter", "allo-\ncates")


def _show_all(out: Console, rows: Sequence[MethodFacts]) -> None:
    first = rows[0]
    what = f"{first.dtype} tensor on {first.device}"
    non_leaf = first.main.source == "non_leaf"
    out.print(f"On a non-leaf {what} that requires grad" if non_leaf else f"On a {what}", style="bold")
    table = _answer_table("method", "note")
    notes: list[str] = []
    for row in rows:
        table.add_row(row.method.id, *_answers(row.main), _marks(row.main, notes))
    out.print(table)
    _print_notes(out, notes)
    _print_dim(
        out,
        "graph: a gradient sent into the copy reached the source. shares memory: a write to one side was seen on "
        "the other. allocates: in sizes of the source. For all kinds of source: torchcopy table --method ID, or "
        "--json.",
    )


def _show_one(out: Console, row: MethodFacts) -> None:
    method = row.method
    out.print(Text.assemble((method.id, "bold"), f"   {method.code}   ({row.dtype}, {row.device})"))
    for line in (method.purpose, f"Prefer {method.prefer}: {method.why}" if method.prefer else method.why):
        if line:
            out.print(Text(line))
    table = _answer_table("source", "loses", "note")
    notes: list[str] = []
    for facts in row.sources:
        table.add_row(facts.source, *_answers(facts), ", ".join(losses(facts)), _marks(facts, notes))
    out.print(table)
    _print_notes(out, notes)
    for facts in row.sources:
        _print_dim(out, f"{facts.source}: {DESCRIPTIONS[facts.source]}")
    _print_dim(
        out,
        "allocates: in sizes of the source. loses: what the source has and the copy does not: memory format, "
        "Python type, attributes set on the tensor.",
    )


def _answer_table(first: str, *last: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in (first, *_ANSWERS):
        table.add_column(heading, no_wrap=True)
    for heading in last:
        table.add_column(heading)
    return table


def _answers(facts: SourceFacts) -> list[Text]:
    """The cells under `_ANSWERS`."""
    if facts.error is not None:
        return [Text("raises", style="red"), *(Text("–", style="dim") for _ in _ANSWERS[1:])]
    return [
        _answer(facts.requires_grad),
        Text("WRONG", style="bold red") if facts.gradient_correct is False else _answer(facts.graph),
        Text("lazy", style="cyan") if facts.lazy else _answer(facts.shares_memory),
        Text(counter(facts)),
        Text(allocation(facts)),
    ]


def _print_notes(out: Console, notes: Sequence[str]) -> None:
    for number, note in enumerate(notes, start=1):
        width = min(out.width, 100)
        out.print(Text(textwrap.fill(f"{number}  {note}", width=width, subsequent_indent="   ")))
    if notes:
        out.print()


def _print_dim(out: Console, text: str) -> None:
    out.print(Text(textwrap.fill(text, width=min(out.width, 100)), style="dim"))


def _answer(answer: bool | None) -> Text:
    return Text(yes_no(answer), style="" if answer else "dim")


def counter(facts: SourceFacts) -> str:
    """Whether the version counter is the source's."""
    return {True: "shared", False: "own", None: "–"}[facts.shares_version_counter]


def losses(facts: SourceFacts) -> list[str]:
    """What the source has and the copy does not."""
    kept = {
        "dtype": facts.dtype_kept,
        "device": facts.device_kept,
        "strides": facts.strides_kept,
        "format": facts.memory_format_kept,
        "type": facts.type_kept,
        "attrs": facts.attributes_kept,
        ".grad": facts.grad_kept,
    }
    if facts.memory_format_kept is False:
        del kept["strides"]  # said by the memory format already
    else:
        del kept["format"]
    return [name for name, answer in kept.items() if answer is False]


def allocation(facts: SourceFacts) -> str:
    """What the call held at most, in sizes of the source: `0`, `1×`."""
    if facts.peak_bytes is None or not facts.source_bytes:
        return "–"
    ratio = facts.peak_bytes / facts.source_bytes
    if 0 < ratio < 0.1:
        return "<0.1×"
    return "0" if ratio == 0 else f"{ratio:.1f}".removesuffix(".0") + "×"


def remarks(facts: SourceFacts) -> list[str]:
    """What a reader has to know beside the answers, a line each."""
    lines = [f"warns: {warning}" for warning in facts.warnings]
    if facts.error is not None:
        lines.append(f"raises {facts.error}")
    if facts.gradient_error is not None:
        lines.append(f"backward raises {facts.gradient_error}")
    if facts.gradient_correct is False:
        lines.append("the gradient that arrives is not the one that was sent")
    if facts.values_kept is False:
        lines.append("the values differ from the source's")
    elif facts.special_values_kept is False:
        lines.append("NaN or infinity does not survive")
    if facts.source_changed:
        lines.append("the call changes the source")
    if facts.lazy:
        lines.append("lazy: the bytes are shared until either side is written, and copied then")
    if facts.requires_grad and facts.graph is False and facts.is_leaf and facts.source == "non_leaf":
        lines.append("requires grad as a new leaf: gradients stop there and do not reach the source")
    return lines


def _marks(facts: SourceFacts, notes: list[str]) -> str:
    """Numbers of the notes that belong to these facts; equal notes share one number."""
    numbers = []
    for line in remarks(facts):
        if line not in notes:
            notes.append(line)
        numbers.append(str(notes.index(line) + 1))
    return ",".join(numbers)


def as_markdown(rows: Sequence[MethodFacts]) -> str:
    """The table in Markdown, for the source at the top of each record."""
    lines = ["| " + " | ".join(_MARKDOWN_HEAD) + " |", "|" + " --- |" * len(_MARKDOWN_HEAD)]
    for row in rows:
        facts = row.main
        cells = (
            row.method.id,
            f"`{row.method.code}`",
            yes_no(facts.requires_grad),
            "wrong" if facts.gradient_correct is False else yes_no(facts.graph),
            "lazy" if facts.lazy else yes_no(facts.shares_memory),
            counter(facts),
            allocation(facts),
            "; ".join(remarks(facts)),
        )
        lines.append("| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
