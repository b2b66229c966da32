import json
import platform

import torch

import torchcopy as tc
from torchcopy import _torch_private
from torchcopy.semantics import machine as machine_module


def test_machine_says_what_runs_here():
    machine = tc.describe_machine()
    assert machine.torch == torch.__version__
    assert machine.python == platform.python_version()
    assert machine.threads == torch.get_num_threads()
    assert machine.cores >= 1
    assert len(machine.gpus) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)
    assert platform.node() not in json.dumps(machine.to_dict()) or not platform.node()


def test_huge_pages_and_cpu_are_read_from_the_system(tmp_path, monkeypatch):
    setting = tmp_path / "enabled"
    setting.write_text("always madvise [never]\n")
    monkeypatch.setattr(machine_module, "_HUGE_PAGES", setting)
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some  CPU @ 3GHz\n")
    monkeypatch.setattr(machine_module, "_CPU_INFO", info)
    diagnosis = tc.diagnose()
    assert diagnosis.machine.transparent_huge_pages == "never"
    assert diagnosis.machine.cpu == "Some CPU @ 3GHz"
    assert "huge pages are off" in diagnosis.advice[0]


def test_a_system_without_these_files(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_module, "_HUGE_PAGES", tmp_path / "none")
    monkeypatch.setattr(machine_module, "_CPU_INFO", tmp_path / "none")
    machine = tc.describe_machine()
    assert machine.transparent_huge_pages is None
    assert machine.cpu


def test_advice_names_a_fast_path_that_fails(monkeypatch):
    broken = _torch_private.FastPath("torch._lazy_clone", "copy-on-write", False, "a read copied", "`clone()`")
    monkeypatch.setattr(_torch_private, "fast_paths", lambda: (broken,))
    diagnosis = tc.diagnose()
    assert "torch._lazy_clone" in diagnosis.advice[-1]
    assert diagnosis.to_dict()["fast_paths"][0]["works"] is False


def test_fewer_threads_than_cores_are_noticed(monkeypatch):
    monkeypatch.setattr(machine_module, "usable_cores", lambda: 64)
    assert any("of 64 cores" in line for line in tc.diagnose().advice)
