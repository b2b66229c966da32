"""What the history benchmark times, each in a process that does nothing else."""

from __future__ import annotations

import copy
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from copying_workloads import WORKLOADS
from torch import Tensor, nn
from torch.distributed._state_dict_utils import _copy_state_dict, _create_cpu_state_dict
from torch.distributed.checkpoint._state_dict_stager import StateDictStager

import torchcopy as tc

TRAINABLE_SHARE = 0.01


class Run:
    """A model, its optimizer if it has one, and a training step that writes to all of them."""

    def __init__(self, workload: str) -> None:
        whole = WORKLOADS["W4" if workload == "W7" else workload].build(torch.device("cpu")).whole
        self.model: nn.Module
        self.optimizer: torch.optim.Optimizer | None
        self.model, self.optimizer = whole if isinstance(whole, tuple) else (whole, None)
        self.parts: dict[str, Any] = {"model": self.model}
        if self.optimizer is not None:
            self.parts["optimizer"] = self.optimizer
        if workload == "W7":
            _freeze_all_but(self.model, TRAINABLE_SHARE)
        gc.collect()

    def states(self) -> dict[str, Any]:
        """What the parts hand out, live tensors in it."""
        return {name: part.state_dict() for name, part in self.parts.items()}

    def tensors(self) -> list[Tensor]:
        """All that is to be kept, each once."""
        found = {id(p): p.data for p in self.model.parameters()}
        found.update({id(b): b for b in self.model.buffers()})
        if self.optimizer is not None:
            for state in self.optimizer.state.values():
                found.update({id(v): v for v in state.values() if isinstance(v, Tensor)})
        return list(found.values())

    def write(self) -> None:
        """Writes every tensor in place, as a step does."""
        with torch.no_grad():
            for t in self.tensors():
                t.copy_(t) if t.dtype == torch.bool else t.add_(0)

    def step(self) -> None:
        """A real training step on 64 tokens."""
        assert self.optimizer is not None
        tokens = torch.randint(0, 1000, (1, 64))
        self.optimizer.zero_grad()
        self.model(tokens).logsumexp(-1).mean().backward()
        self.optimizer.step()


def _freeze_all_but(model: nn.Module, share: float) -> None:
    """Leaves the last parameters trainable, up to a share of all numbers."""
    left = share * sum(p.numel() for p in model.parameters())
    for p in reversed(list(model.parameters())):
        p.requires_grad_(p.numel() <= left)
        left -= p.numel() if p.requires_grad else 0


# --- what a take costs -----------------------------------------------------------------------------------------


def _deepcopy(run: Run) -> Callable[[], Any]:
    return lambda: copy.deepcopy(run.states())


def _copy_state_dict_(run: Run) -> Callable[[], Any]:
    kept = _create_cpu_state_dict(run.states())
    return lambda: _copy_state_dict(run.states(), kept)


def _stager(run: Run) -> Callable[[], Any]:
    stager = StateDictStager()
    return lambda: stager.stage(run.states())


def _limit(run: Run) -> Callable[[], Any]:
    tensors = run.tensors()
    kept = [torch.empty_like(t) for t in tensors]
    return lambda: torch._foreach_copy_(kept, tensors)


def _take(mode: Any) -> Callable[[Run], Callable[[], Any]]:
    def prepare(run: Run) -> Callable[[], Any]:
        history = tc.History(**run.parts, mode=mode, keep=1, rng=False)

        def take() -> None:
            history.take()  # the history keeps it, and gives its memory to the next one

        return take

    return prepare


TAKES: dict[str, Callable[[Run], Callable[[], Any]]] = {
    "limit": _limit,
    "deepcopy": _deepcopy,
    "StateDictStager": _stager,
    "_copy_state_dict": _copy_state_dict_,
    "eager": _take("eager"),
    "lazy": _take("lazy"),
}


def time_takes(workload: str, method: str, calls: int, writes: bool) -> dict[str, Any]:
    """Seconds of each take; between two, every tensor is written, by an optimizer if there is one, or none."""
    run = Run(workload)
    call = TAKES[method](run)
    held, seconds = None, []
    if run.optimizer is not None:
        _trained_step(run)  # its state is there from the first step on
    for turn in range(calls + 3):
        if writes and run.optimizer is not None:
            _trained_step(run)  # where an optimizer writes, a history lets go of what it does not keep any more
        elif writes:
            run.write()
        start = time.perf_counter()
        held = call()
        taken = time.perf_counter() - start
        if turn >= 3:
            seconds.append(taken)
    del held
    return {"seconds": seconds, "tensors": len(run.tensors())}


# --- what the run loses ----------------------------------------------------------------------------------------


def time_steps(workload: str, mode: str, calls: int) -> dict[str, Any]:
    """Seconds of the call, of the step after it, and of steps that follow no take, in turns."""
    run = Run(workload)
    history = tc.History(**run.parts, mode=mode, keep=1, rng=False)  # type: ignore[arg-type]
    call, after, plain = [], [], []
    for turn in range(calls + 2):
        start = time.perf_counter()
        history.take()
        taken = time.perf_counter()
        run.step()
        stepped = time.perf_counter()
        history.wait()
        run.step()  # what the wait left to do is not the next one's
        begin = time.perf_counter()
        run.step()
        end = time.perf_counter()
        if turn >= 2:
            call.append(taken - start)
            after.append(stepped - taken)
            plain.append(end - begin)
    return {"call": call, "after": after, "plain": plain}


# --- back into the run -----------------------------------------------------------------------------------------


def time_restores(workload: str, method: str, calls: int) -> dict[str, Any]:
    """Seconds of each restore; before it, every tensor is written."""
    run = Run(workload)
    call: Callable[[], Any]
    if method == "load_state_dict":
        states = copy.deepcopy(run.states())

        def call() -> None:
            # `Optimizer.load_state_dict` keeps the tensors that it is given: a step would write the snapshot.
            for name, part in run.parts.items():
                part.load_state_dict(copy.deepcopy(states[name]) if name == "optimizer" else states[name])
    elif method == "load_state_dict, aliased":
        states = copy.deepcopy(run.states())

        def call() -> None:
            for name, part in run.parts.items():
                part.load_state_dict(states[name])
    else:
        call = tc.History(**run.parts, mode=method, rng=False).take().wait().restore  # type: ignore[arg-type]
    seconds = []
    for turn in range(calls + 2):
        run.write()
        start = time.perf_counter()
        call()
        if turn >= 2:
            seconds.append(time.perf_counter() - start)
    return {"seconds": seconds}


# --- memory ----------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """What the process has in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _trained_step(run: Run) -> None:
    assert run.optimizer is not None
    for p in run.model.parameters():
        if p.requires_grad:
            p.grad = torch.full_like(p, 1e-3)
    run.optimizer.step()


def measure_memory(workload: str, method: str, snapshots: int) -> dict[str, Any]:
    """Resident bytes after each snapshot, more than before the first; a step between two."""
    run = Run(workload)
    _trained_step(run)
    tc.empty_cache()
    before, grown = resident_bytes(), []
    kept: list[Any] = []
    history = tc.History(**run.parts, mode=method, keep=None, rng=False) if method != "deepcopy" else None  # type: ignore[arg-type]
    for _ in range(snapshots):
        kept.append(copy.deepcopy(run.states()) if history is None else history.take())
        _trained_step(run)
        grown.append(resident_bytes() - before)
    return {"grown_bytes": grown}


def measure_loop(workload: str, method: str, snapshots: int) -> dict[str, Any]:
    """Of a training loop with a snapshot after each step: what each call stalls it, and the resident bytes."""
    run = Run(workload)
    if run.optimizer is None:
        run.optimizer = torch.optim.SGD(run.model.parameters(), lr=1e-4, momentum=0.9)
        run.parts["optimizer"] = run.optimizer
    _trained_step(run)
    before = resident_bytes()
    kept: list[Any] = []
    history = tc.History(**run.parts, mode=method, keep=10, rng=False) if method != "deepcopy" else None  # type: ignore[arg-type]
    stalls, grown = [], []
    for _ in range(snapshots):
        start = time.perf_counter()
        if history is None:
            kept = [*kept[-9:], copy.deepcopy(run.states())]
        else:
            history.take()
        stalls.append(time.perf_counter() - start)
        _trained_step(run)
        grown.append(resident_bytes() - before)
    return {"stalls": stalls, "grown_bytes": grown}
