"""How advice is asked for and shown in the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.prompt import Confirm, Prompt
from rich.table import Table
from rich.text import Text

from .._tensors import format_seconds
from ..bench.preflight import parse_size
from ..semantics.advice import Advice
from .terminal import console


def ask(defaults: dict[str, Any]) -> dict[str, Any]:
    """Asks for each need in turn; Enter takes the default."""
    out = console()
    out.print("A few questions; Enter takes the answer in brackets.\n", style="dim")
    answers = dict(defaults)
    answers["nested"] = Confirm.ask("A model, a state_dict or a container?", console=out, default=False)
    keep = Confirm.ask("Must gradients flow back to the source?", console=out, default=False)
    answers["graph"] = "keep" if keep else "detach"
    memory = ["own", "share", "lazy"]
    out.print(Text("own: bytes of its own. share: the source's. lazy: shared until one is written.", style="dim"))
    answers["memory"] = Prompt.ask("Whose memory?", console=out, choices=memory, default="own")
    answers["hot_loop"] = Confirm.ask("Again and again, with the same shapes?", console=out, default=False)
    if not answers["nested"] and answers["memory"] == "own":
        for name in ("device", "dtype"):
            answer = Prompt.ask(f"Which {name} for the copy?", console=out, default="the same")
            answers[name] = None if answer == "the same" else answer
    answers["numel"] = parse_size(Prompt.ask("How many elements?", console=out, default="2^20"))
    out.print()
    return answers


def show(advice: Advice) -> None:
    """Prints the expression, why, what it costs here and what to avoid."""
    out = console()
    out.print(Text("Write", style="bold"))
    for line in filter(None, (advice.setup and f"{advice.setup}  # once", advice.expression)):
        out.print(Text(f"    {line}", style="bold green"))
    out.print(Text(advice.why))
    for note in advice.notes:
        out.print(Text(f"! {note}", style="yellow"))
    if advice.timings:
        out.print()
        out.print(Text(f"Measured here on {advice.measured_on}", style="bold"))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("expression", overflow="fold")
        table.add_column("median", justify="right", no_wrap=True)
        table.add_column("ratio", justify="right", no_wrap=True)
        for choice in advice.timings:
            time = format_seconds(choice.timing.median_seconds)
            table.add_row(Text(choice.code), time, f"{choice.ratio:.2f}×")
        out.print(table)
    if advice.avoid:
        out.print()
        out.print(Text("Avoid", style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="red", overflow="fold", max_width=out.width // 2)
        grid.add_column(style="dim")
        for warned in advice.avoid:
            grid.add_row(Text(f"  {warned.code}"), Text(warned.reason))
        out.print(grid)
