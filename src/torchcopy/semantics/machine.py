"""What this machine is, as far as copying tensors depends on it."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
from pathlib import Path
from typing import Any

import torch

from .. import _torch_private
from .._torch_private import FastPath
from .._version import __version__

_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CPU_INFO = Path("/proc/cpuinfo")


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One accelerator.

    Attributes:
        name: as the driver calls it.
        memory_bytes: its memory.
        capability: the compute capability, such as `9.0`.
    """

    name: str
    memory_bytes: int
    capability: str


@dataclasses.dataclass(frozen=True)
class Machine:
    """Versions and hardware that decide what a copy costs. Nothing in it names the machine or its user.

    Attributes:
        torch: version of PyTorch.
        python: version of Python.
        torchcopy: version of torchcopy.
        system: operating system and architecture.
        cpu: model of the processor.
        cores: processors this process may use.
        threads: threads PyTorch uses within an operation.
        memory_bytes: main memory; None where the system does not tell.
        transparent_huge_pages: the kernel's setting; None where there is none.
        cuda: version of CUDA that PyTorch was built with, or None.
        gpus: the accelerators at hand.
    """

    torch: str
    python: str
    torchcopy: str
    system: str
    cpu: str
    cores: int
    threads: int
    memory_bytes: int | None
    transparent_huge_pages: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """One line, as reports carry it."""
        gpus = "".join(f", {gpu.name}" for gpu in self.gpus)
        return f"torch {self.torch}, Python {self.python}, {self.cpu} ({self.threads} threads){gpus}, {self.system}"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What `torchcopy doctor` found.

    Attributes:
        machine: versions and hardware.
        fast_paths: the private entry points of PyTorch, and what the self-check saw them do.
        advice: what could be set better for copying, a sentence each.
    """

    machine: Machine
    fast_paths: tuple[FastPath, ...]
    advice: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, ready for JSON."""
        return {
            "machine": self.machine.to_dict(),
            "fast_paths": [path.to_dict() for path in self.fast_paths],
            "advice": list(self.advice),
        }


def describe_machine() -> Machine:
    """Reads versions and hardware. Starts no computation, touches no tensor, synchronises nothing."""
    gpus = tuple(_gpu(index) for index in range(torch.cuda.device_count())) if torch.cuda.is_available() else ()
    return Machine(
        torch=torch.__version__,
        python=platform.python_version(),
        torchcopy=__version__,
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu_model(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=memory_bytes(),
        transparent_huge_pages=_huge_page_setting(),
        cuda=torch.version.cuda,
        gpus=gpus,
    )


def diagnose() -> Diagnosis:
    """Looks at the machine and runs the self-check of the fast paths, if it has not run yet.

    No tensor of the caller is shared, read or changed, and nothing is synchronised.

    Example:
        >>> import torchcopy as tc
        >>> tc.diagnose().fast_paths[0].name
        'torch._C._data_address'
    """
    machine, paths = describe_machine(), _torch_private.fast_paths()
    return Diagnosis(machine, paths, tuple(_advice(machine, paths)))


def _advice(machine: Machine, paths: tuple[FastPath, ...]) -> list[str]:
    lines = []
    if machine.transparent_huge_pages == "never":
        lines.append(
            "Transparent huge pages are off: fresh memory is slower to touch. "
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (as root) lets programs ask for them."
        )
    if machine.threads < machine.cores:
        lines.append(
            f"PyTorch uses {machine.threads} of {machine.cores} cores: copies of large tensors may be slower than "
            f"the memory allows. `torch.set_num_threads({machine.cores})` or OMP_NUM_THREADS sets it."
        )
    broken = [path.name for path in paths if not path.works]
    if broken:
        lines.append(f"Not working on this torch, the fallback is used: {', '.join(broken)}.")
    return lines


def usable_cores() -> int:
    """Processors this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Main memory of the machine, or None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _gpu(index: int) -> Gpu:
    found = torch.cuda.get_device_properties(index)
    return Gpu(found.name, found.total_memory, f"{found.major}.{found.minor}")


def _cpu_model() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", _CPU_INFO.read_text(encoding="utf-8"), flags=re.MULTILINE)
    except OSError:
        match = None
    return " ".join(match[1].split()) if match else platform.processor() or platform.machine()


def _huge_page_setting() -> str | None:
    """The setting in brackets of `always [madvise] never`."""
    try:
        match = re.search(r"\[(\w+)\]", _HUGE_PAGES.read_text(encoding="ascii"))
    except OSError:
        return None
    return match[1] if match else None
