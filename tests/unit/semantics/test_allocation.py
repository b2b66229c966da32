import numpy as np
import pytest
import torch

from torchcopy.semantics.allocation import Allocation, measure_allocation

CPU = torch.device("cpu")
KB = 1024


def test_what_a_call_keeps_and_what_it_only_needs():
    t = torch.zeros(256)
    _, kept = measure_allocation(lambda: t.clone(), CPU)
    assert kept == Allocation(KB, KB, KB)
    _, temporary = measure_allocation(lambda: t.clone().clone(), CPU)
    assert temporary == Allocation(2 * KB, 2 * KB, KB)
    _, freed = measure_allocation(lambda: (t.clone(), None)[1], CPU)
    assert freed == Allocation(KB, KB, 0)
    _, one_after_the_other = measure_allocation(lambda: [t.clone() for _ in range(3)].pop(), CPU)
    assert one_after_the_other.peak_bytes == 3 * KB


def test_the_peak_is_not_the_sum():
    t = torch.zeros(256)
    _, measured = measure_allocation(lambda: [t.clone().sum().item() for _ in range(3)] and t.clone(), CPU)
    assert measured.allocated_bytes >= 4 * KB
    assert KB <= measured.peak_bytes < 2 * KB


def test_a_view_allocates_nothing():
    t = torch.zeros(256)
    result, measured = measure_allocation(lambda: t.detach(), CPU)
    assert measured == Allocation(0, 0, 0)
    result[0] = 1
    assert t[0] == 1


def test_numpys_own_memory_is_counted():
    t = torch.zeros(256)
    _, measured = measure_allocation(lambda: torch.from_numpy(t.numpy().copy()), CPU)
    assert measured.kept_bytes == KB
    held = np.zeros(10**6)  # held before and after: not the call's
    _, measured = measure_allocation(lambda: t.detach(), CPU)
    assert measured.kept_bytes == 0
    assert held.nbytes == 8 * 10**6


def test_an_exception_of_the_call_passes_and_leaves_no_profiler():
    with pytest.raises(ZeroDivisionError):
        measure_allocation(lambda: 1 / 0, CPU)
    with pytest.raises(RuntimeError, match="mine"):
        measure_allocation(_raise, CPU)
    assert measure_allocation(lambda: torch.zeros(256), CPU)[1].kept_bytes == KB


def _raise():
    raise RuntimeError("mine")


def test_under_a_running_profiler_the_call_runs_and_is_not_counted():
    calls = []
    with torch.profiler.profile() as profiler:
        result, measured = measure_allocation(lambda: calls.append(1) or torch.ones(3).mul(2), CPU)
    assert measured is None
    assert calls == [1]
    assert result.tolist() == [2, 2, 2]
    assert any(event.key == "aten::mul" for event in profiler.key_averages())  # the user's profile went on


def test_a_trace_of_the_program_is_left_alone():
    import tracemalloc

    tracemalloc.start()
    try:
        measure_allocation(lambda: torch.zeros(4), CPU)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
