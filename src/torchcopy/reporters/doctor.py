"""How `torchcopy doctor`'s findings are shown."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from .._tensors import format_bytes
from ..semantics.machine import Diagnosis, Machine
from .terminal import console


def show(diagnosis: Diagnosis) -> None:
    """Prints the machine, the fast paths and what could be set better."""
    out = console()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for name, value in _facts(diagnosis.machine):
        facts.add_row(name, Text(value))
    out.print(facts)
    out.print()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("fast path", no_wrap=True)
    table.add_column("used for")
    table.add_column("self-check")
    for path in diagnosis.fast_paths:
        short = path.name.removeprefix("torch.").removeprefix("_C.").removeprefix("_autograd.")
        verdict = (
            Text("works", style="green") if path.works else Text(f"no: {path.detail}; {path.fallback}", style="red")
        )
        table.add_row(Text(short), Text(path.purpose), verdict)
    out.print(table)
    for line in diagnosis.advice:
        out.print(Text(f"! {line}", style="yellow"))
    if not diagnosis.advice:
        out.print(Text("Nothing to set better here.", style="green"))


def _facts(machine: Machine) -> list[tuple[str, str]]:
    rows = [
        ("torch", machine.torch + (f" (CUDA {machine.cuda})" if machine.cuda else " (no CUDA)")),
        ("Python", machine.python),
        ("torchcopy", machine.torchcopy),
        ("system", machine.system),
        ("CPU", machine.cpu),
        ("cores", f"{machine.cores} usable, {machine.threads} threads in PyTorch"),
        ("memory", "unknown" if machine.memory_bytes is None else format_bytes(machine.memory_bytes)),
        ("huge pages", machine.transparent_huge_pages or "no such setting"),
    ]
    gpus = [f"{gpu.name}, {format_bytes(gpu.memory_bytes)}, capability {gpu.capability}" for gpu in machine.gpus]
    return rows + [("GPU", text) for text in gpus or ["none"]]
