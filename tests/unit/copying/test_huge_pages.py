"""Huge pages are asked for where Linux gives them on request and they help, and only inside new tensors."""

import pytest
import torch

import torchcopy as tc
from torchcopy.copying.tensors import huge_pages, new_memory
from torchcopy.copying.tensors.madvise import HUGE_PAGES, whole_pages

PAGE = 1 << 21


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Lets the test set up what Linux says, and collects what is asked for."""
    asked = []

    def advise(address, size, advice):
        asked.append((address, size, advice))
        return 0

    def set_up(setting="always [madvise] never", features=None):
        (tmp_path / "enabled").write_text(setting)
        (tmp_path / "hpage_pmd_size").write_text(f"{PAGE}\n")
        if features is not None:
            (tmp_path / "virtio0").mkdir()
            (tmp_path / "virtio0" / "features").write_text(features)
        huge_pages._page.cache_clear()
        return asked

    monkeypatch.setattr(huge_pages, "_SETTING", tmp_path / "enabled")
    monkeypatch.setattr(huge_pages, "_SIZE_FILE", tmp_path / "hpage_pmd_size")
    monkeypatch.setattr(huge_pages, "_BALLOONS", tmp_path)
    monkeypatch.setattr(huge_pages, "madvise", lambda: advise)
    monkeypatch.setattr(new_memory, "is_in_use", lambda: False)  # no memory of an earlier copy
    yield set_up
    huge_pages._page.cache_clear()


def large():
    return {"a": torch.ones(5 * PAGE // 4), "b": torch.ones(100)}


def test_they_are_asked_for_inside_the_new_tensor(system):
    asked = system()
    source = large()
    copied = tc.copy(source)
    ((address, size, advice),) = asked
    assert advice == HUGE_PAGES
    assert address % PAGE == size % PAGE == 0
    start = copied["a"].data_ptr()
    assert start <= address < start + PAGE
    assert start + copied["a"].nbytes - PAGE < address + size <= start + copied["a"].nbytes
    copied["a"].zero_()
    assert (source["a"] == 1).all()
    source["a"].fill_(2)
    assert (copied["a"] == 0).all()


@pytest.mark.parametrize(
    ("setting", "features", "expected"),
    [
        ("always [madvise] never", None, True),
        ("always [madvise] never", "0110010100", False),  # the host takes free pages
        ("always [madvise] never", "0110000100", True),
        ("always [madvise] never", "", True),
        ("[always] madvise never", None, False),  # there anyway
        ("always madvise [never]", None, False),
    ],
)
def test_they_are_asked_for_where_they_help(system, setting, features, expected):
    asked = system(setting, features)
    huge_pages.advise_huge_pages([torch.empty(2 * PAGE)])
    assert bool(asked) == expected


def test_a_system_that_does_not_say_is_not_asked(system, tmp_path):
    asked = system()
    (tmp_path / "enabled").unlink()
    huge_pages.advise_huge_pages([torch.empty(2 * PAGE)])
    assert asked == []


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [(0, 4096, (0, 4096)), (1, 8191, (4096, 4096)), (1, 4096, (4096, 0)), (5000, 20000, (8192, 16384))],
)
def test_whole_pages(start, size, expected):
    assert whole_pages(start, size, 4096) == expected
