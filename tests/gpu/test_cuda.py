"""The same answers on a GPU as on the CPU, where they are the same."""

import pytest
import torch

import torchcopy as tc
from torchcopy.semantics.allocation import measure_allocation

pytestmark = pytest.mark.gpu

SAME_AS_CPU = (
    "assignment copy.copy detach data view clone detach_clone clone_detach empty_like_copy_ tensor new_tensor to "
    "to_other_dtype to_copy contiguous reshape asarray foreach_copy_ state_dict_load"
).split()
ANSWERS = (
    "requires_grad graph gradient_correct is_source shares_memory shares_version_counter values_kept "
    "special_values_kept dtype_kept device_kept strides_kept attributes_kept source_changed error"
).split()


@pytest.mark.parametrize("name", SAME_AS_CPU)
def test_truth_table_is_that_of_the_cpu(name):
    here, there = tc.probe(name), tc.probe(name, device="cuda")
    assert there.device.startswith("cuda")
    for facts in there.sources:
        on_cpu = here.on(facts.source)
        for answer in ANSWERS:
            assert getattr(facts, answer) == getattr(on_cpu, answer), (facts.source, answer)


def test_numpy_leaves_the_gpu_and_copies():
    facts = tc.probe("numpy_roundtrip", device="cuda").main
    assert (facts.device_kept, facts.shares_memory, facts.values_kept) == (False, False, True)


def test_allocation_is_the_caching_allocators():
    t = torch.zeros(2**20, device="cuda")
    result, measured = measure_allocation(lambda: t.clone().clone(), t.device)
    assert (measured.allocated_bytes, measured.peak_bytes, measured.kept_bytes) == (2**23, 2**23, 2**22)
    t.fill_(1)
    assert float(result.sum()) == 0
    result.fill_(2)
    assert float(t.sum()) == 2**20


def test_relate():
    a = torch.arange(8.0, device="cuda", requires_grad=True)
    assert tc.relate(a, a.detach()).memory == "same"
    assert tc.relate(a, a.clone()).memory == "separate"
    assert tc.relate(a, a.clone()).graph == "a→b"
    base = a.detach()
    assert tc.relate(base[::2], base[1::2]).shared_bytes == 0
    assert tc.relate(base, base.cpu()).same_values is True


def test_bench_measures_and_has_a_limit():
    report = tc.bench_tensors(["clone", "detach", "to_copy"], sizes=["2^10", "2^20"], device="cuda", max_seconds=10)
    assert report.device.startswith("cuda")
    assert len(report.limits) == 2
    assert all(m.timing is not None for m in report.measurements)
    assert {m.method: m.is_copy for m in report.measurements} == {"clone": True, "detach": False, "to_copy": True}


def test_doctor_names_the_gpu():
    assert tc.diagnose().machine.gpus[0].memory_bytes > 0
