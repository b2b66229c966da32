"""The self-check, the fallbacks, and that nothing is materialised or moved by looking."""

import builtins

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchcopy import _torch_private as private
from torchcopy._torch_private import self_checks
from torchcopy._torch_private.entry_points import ENTRY_POINTS


@pytest.fixture
def failing(monkeypatch):
    """Makes the self-check of the named entries fail, as on a torch that lacks them."""
    broken = set()
    real = self_checks._checked

    def checked(name):
        path = real(name)
        return private.FastPath(name, path.purpose, False, "gone", path.fallback) if name in broken else path

    monkeypatch.setattr(self_checks, "_checked", checked)
    return broken


def test_everything_works_on_the_pinned_torch():
    paths = private.fast_paths()
    assert len(paths) == len(ENTRY_POINTS)
    assert [path.name for path in paths if not path.works] == []


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=lambda e: e.name)
def test_a_self_check_fails_where_the_function_is_gone(entry, monkeypatch):
    owner, _, attribute = entry.name.rpartition(".")
    target = torch
    for part in owner.split(".")[1:]:
        target = getattr(target, part)
    monkeypatch.setattr(target, attribute, None)
    with pytest.raises(TypeError):
        entry.check()


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("_lazy_clone", lambda t: t.clone(), "the clone is not copy-on-write"),
        ("_lazy_clone", lambda t: t, "the clone is not copy-on-write"),
        ("_foreach_copy_", lambda targets, sources: None, "it copied other values"),
    ],
)
def test_a_self_check_fails_where_the_function_does_something_else(name, wrong, message, monkeypatch):
    monkeypatch.setattr(torch, name, wrong)
    entry = next(e for e in ENTRY_POINTS if e.name == f"torch.{name}")
    with pytest.raises(RuntimeError, match=message):
        entry.check()


def test_modes_of_the_caller_do_not_decide_the_self_check():
    self_checks._checked.cache_clear()
    with torch.device("meta"), torch.inference_mode():
        assert all(path.works for path in private.fast_paths())


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def test_modes_are_set_aside_and_come_back():
    with Seen() as mode:
        mode.calls = []
        with private.outside_modes():
            assert not private.in_dispatch_mode()
            torch.ones(2).add_(1)
        assert mode.calls == []
        torch.ones(2).add_(1)
        assert "aten.add_.Tensor" in mode.calls


def test_nothing_is_imported_to_set_no_modes_aside(monkeypatch):
    """A forked child would wait for the lock of a thread that it does not have."""
    imported = []
    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda *args: imported.append(args[0]) or real(*args))
    with private.outside_modes():
        pass
    assert imported == []
    __import__("torch.nn")  # what the list is for
    assert imported == ["torch.nn"]


def test_lazy_clone_shares_until_a_write_on_either_side():
    source = torch.arange(4.0)
    first, second = private.lazy_clone(source), private.lazy_clone(source)
    assert private.is_lazy(source)
    assert private.storage_address(source) == private.storage_address(first)
    assert private.storage_id(source) != private.storage_id(first)
    source[0] = 7
    first[1] = 8
    assert (source.tolist(), first.tolist(), second.tolist()) == ([7, 1, 2, 3], [0, 8, 2, 3], [0, 1, 2, 3])


def test_looking_does_not_materialise():
    source = torch.arange(4.0)
    clone = private.lazy_clone(source)
    private.storage_address(clone), private.storage_id(clone), private.shares_version_counter(source, clone)
    assert private.is_lazy(source)
    assert private.is_lazy(clone)


def test_a_borrowed_storage_is_copied_at_once():
    import numpy as np

    array = np.arange(4.0)
    source = torch.from_numpy(array)
    clone = private.lazy_clone(source)
    array[0] = 9
    assert clone[0] == 0
    clone[1] = 8
    assert array[1] == 1
    with pytest.raises(RuntimeError):
        private.strict_lazy_clone(source)


def test_layouts_without_a_storage_are_not_lazy():
    assert not private.is_lazy(torch.eye(3).to_sparse())


def test_version_counters():
    leaf = torch.zeros(3, requires_grad=True)
    other = torch.zeros(3)
    versions = leaf._version, other._version
    assert private.shares_version_counter(leaf, leaf.detach()) is True
    assert private.shares_version_counter(leaf, leaf) is True
    assert private.shares_version_counter(leaf, leaf.data) is False
    assert private.shares_version_counter(leaf, other) is False
    assert (leaf._version, other._version) == versions
    with torch.inference_mode():
        assert private.shares_version_counter(leaf, torch.zeros(3)) is None


def test_foreach_copy_with_and_without_the_fast_path(failing):
    for name in ("", "torch._foreach_copy_"):
        failing.add(name)
        sources = [torch.arange(3.0), torch.ones(2, 2)]
        targets = [torch.zeros(3), torch.zeros(2, 2)]
        private.foreach_copy_(targets, sources)
        sources[0][0] = 5
        assert targets[0].tolist() == [0, 1, 2]
        targets[1][0, 0] = 6
        assert sources[1][0, 0] == 1
    private.foreach_copy_([], [])


def test_fallbacks_give_the_same_answers(failing):
    failing.update(entry.name for entry in ENTRY_POINTS)
    base = torch.arange(8.0)
    assert private.storage_address(base[3:]) == base.data_ptr()
    assert private.storage_id(base[3:]) == private.storage_id(base)
    assert private.storage_id(torch.arange(8.0)) != private.storage_id(base)
    assert private.shares_version_counter(base, base.detach()) is None
    assert private.shares_version_counter(base, base) is True
    clone = private.lazy_clone(base)
    assert not private.is_lazy(clone)
    clone[0] = 3
    assert base[0] == 0
    base[1] = 9
    assert clone[1] == 1


def test_every_warning_is_undone():
    before = torch.is_warn_always_enabled()
    with private.every_warning():
        assert torch.is_warn_always_enabled()
    assert torch.is_warn_always_enabled() is before
    with pytest.raises(ZeroDivisionError), private.every_warning():
        raise ZeroDivisionError
    assert torch.is_warn_always_enabled() is before
