"""What every test has to leave as it found it, and which tests can run here."""

import os
import tracemalloc

# Read where a process first uses the profiler: else what that writes to stderr hangs on the order of the tests.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import pytest
import torch

from torchcopy.semantics.catalogue import find_methods


def _global_state():
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "warn always": torch.is_warn_always_enabled(),
        "threads": torch.get_num_threads(),
        "profiler": torch.autograd.profiler._is_profiler_enabled,
        "tracemalloc": tracemalloc.is_tracing(),
        "catalogue": find_methods(),
    }


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    """No test, and nothing it calls, leaves a mode, a setting or a registered method behind."""
    before = _global_state()
    yield
    after = _global_state()
    assert after == before


@pytest.fixture(scope="module")
def one_thread():
    """For modules as small as these a second one only costs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(config, items):
    """GPU tests are collected only where there is a GPU: a test that cannot run is not counted as one."""
    if torch.cuda.is_available():
        return
    kept, left_out = [], []
    for item in items:
        (left_out if "gpu" in item.keywords else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
