"""How the codes are explained in the terminal: one in full, or many as a list."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from ..semantics.codes import Code, Family, InSource
from .terminal import console

FAMILIES: dict[Family, str] = {
    "hazard": "Hazards: a copy is missing, and results are wrong",
    "waste": "Waste: a copy was not needed, and takes time and memory",
    "idiom": "Idioms: discouraged",
}
"""What the codes of a family have in common."""

_WIDEST = 100  # longer lines of prose are hard to read
# The terminal's own colours, and only those that can be read on light and on dark.
_CODE_COLOURS = ANSISyntaxTheme(
    {
        ("Comment",): Style(dim=True, italic=True),
        ("Keyword",): Style(color="magenta"),
        ("Operator", "Word"): Style(color="magenta"),
        ("Literal", "String"): Style(color="green"),
    }
)


def show(codes: Sequence[Code]) -> None:
    """Prints each code in full: the story, a program with the mistake and one without it, what to write."""
    out = console()
    for position, code in enumerate(codes):
        if position:
            out.print()
            out.rule(style="dim")
        _show_one(out, code)


def show_list(codes: Sequence[Code]) -> None:
    """Prints a line for each code, by family: the title, and whether the audit and the linter look for it."""
    out = console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("code", no_wrap=True)
    table.add_column("what is wrong")
    table.add_column("audit", no_wrap=True)
    table.add_column("lint", no_wrap=True)
    for family in dict.fromkeys(code.family for code in codes):
        if table.row_count:
            table.add_row()
        table.add_row("", Text(FAMILIES[family], style="bold"))
        for code in (c for c in codes if c.family == family):
            title = _with_code(out, code.title)
            table.add_row(Text(code.code, style="bold"), title, *map(Text, looked_for(code)))
    out.print(table)
    out.print()
    notes = ["torchcopy explain CODE tells the story, with a program that shows it."]
    if not all(code.on for code in codes):
        notes.append("opt-in: only where it is selected.")
    _paragraph(out, Text(" ".join(notes), style="dim"))


def looked_for(code: Code) -> tuple[str, str]:
    """Whether the audit, and whether the linter looks for it: `yes`, `opt-in`, or a dash."""
    yes = "yes" if code.on else "opt-in"
    return yes if code.audited else "–", yes if code.linted else "–"


def paragraphs(code: Code) -> list[str]:
    """The story, a string for each paragraph; where the lines end is left to who shows it."""
    return unwrapped(code.story)


def unwrapped(text: str) -> list[str]:
    """A string for each paragraph of a text."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def found_by(code: Code) -> str:
    """Which commands look for it, in words."""
    commands = [name for name, looks in (("audit", code.audited), ("lint", code.linted)) if looks]
    found = " and ".join(f"`torchcopy {command}`" for command in commands)
    return f"found by {found}" + ("" if code.on else ", where it is selected")


def silenced_by(code: Code) -> str:
    """How to silence it in source, in words."""
    return (
        f"A comment `# torchcopy: ignore[{code.code}]`, or `# noqa: {code.code}`, at the end of a line silences it "
        "there; `ignore` and `per-file-ignores` under `[tool.torchcopy.lint]` in `pyproject.toml` do so for all "
        "files or for some."
    )


def _show_one(out: Console, code: Code) -> None:
    _paragraph(out, Text.assemble((f"{code.code}  ", "bold"), _with_code(out, code.title, style="bold")))
    _paragraph(out, _with_code(out, f"{code.family} {code.name}, {found_by(code)}", style="dim"))
    for paragraph in paragraphs(code):
        out.print()
        _paragraph(out, _with_code(out, paragraph))
    for heading, program in (("Wrong", code.wrong), ("Right", code.right)):
        _heading(out, heading)
        # Not wrapped: it is there to be pasted. Without the spaces to the edge that `Syntax` itself prints.
        highlighted = Syntax(program, "python", theme=_CODE_COLOURS).highlight(program)
        for line in highlighted.split("\n"):
            line.rstrip()
            out.print(Text("  ") + line if line else "", soft_wrap=True)
    _heading(out, "What to write")
    _paragraph(out, _with_code(out, code.fix), indent=2)
    if code.in_source is not None:
        _show_in_source(out, code, code.in_source)
    if code.threads:
        _heading(out, "Discussed in")
        for thread in code.threads:
            out.print(Text(f"  {thread}"), soft_wrap=True)


def _show_in_source(out: Console, code: Code, seen: InSource) -> None:
    _heading(out, "In source")
    for paragraph in unwrapped(seen.sees):
        _paragraph(out, _with_code(out, paragraph), indent=2)
        out.print()
    for line in seen.diff():
        style = {"-": "magenta", "+": "green"}.get(line[0], "")
        out.print(Text(f"  {line}".rstrip(), style=style), soft_wrap=True)
    out.print()
    _paragraph(out, _with_code(out, silenced_by(code)), indent=2)


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _paragraph(out: Console, text: Text, *, indent: int = 0) -> None:
    for line in text.wrap(out, min(out.width, _WIDEST) - indent):
        line.rstrip()
        out.print(Text(" " * indent) + line, soft_wrap=True)


def _with_code(out: Console, text: str, *, style: str = "") -> Text:
    """The text with what stands in backticks in colour, where there are colours, or in its backticks."""
    if not out.is_terminal or out.no_color:
        return Text(text, style=style)
    parts = re.split(r"`([^`]*)`", text)
    return Text.assemble(*((part, "not dim cyan" if k % 2 else "") for k, part in enumerate(parts)), style=style)
