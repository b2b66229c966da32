import os

import pytest
import torch

from torchcopy._errors import InputError
from torchcopy.bench import preflight
from torchcopy.bench.preflight import check_memory, check_outputs, format_size, parse_size, parse_sizes

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "numel"),
    [
        ("1", 1),
        ("2^0", 1),
        ("2^20", 1 << 20),
        ("2**10", 1024),
        ("10^3", 1000),
        ("1k", 1000),
        ("1.5K", 1500),
        ("1M", 10**6),
        ("1Mi", 1 << 20),
        ("2gi", 2 << 30),
        ("1e6", 10**6),
        ("1_000", 1000),
        (" 7 ", 7),
        (12, 12),
    ],
)
def test_sizes_that_people_write(text, numel):
    assert parse_size(text) == numel


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a number of elements"),
        ("many", "not a number of elements"),
        ("-1", "not a number of elements"),
        ("2^-1", "not a number of elements"),
        ("1e400", "not a number of elements"),
        ("1 2", "not a number of elements"),
        (True, "not a number of elements"),
        ("nan", "not a number of elements"),
        ("0", "at least 1"),
        ("1.5", "whole number"),
        (0, "at least 1"),
        ("9^99", "the most is 2\\^62"),
        ("2^63", "the most is 2\\^62"),
    ],
)
def test_sizes_that_are_none(text, message):
    with pytest.raises(InputError, match=message):
        parse_size(text)


def test_ranges():
    assert parse_sizes(["2^0..2^3"]) == (1, 2, 4, 8)
    assert parse_sizes(["10^1..10^3"]) == (10, 100, 1000)
    assert parse_sizes(["1k..3k"]) == (1000, 2000, 3000)
    assert parse_sizes(["5..5"]) == (5,)
    assert parse_sizes(["1^2..1^5", "3", "1"]) == (1, 3)
    assert parse_sizes("8") == (8,)


def test_default_sizes_are_the_articles_and_then_large_ones():
    assert parse_sizes(None)[:15] == tuple(2**k for k in range(15))
    assert parse_sizes(None)[-1] == 2**26


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["2^9..2^3"], "write `2\\^3..2\\^9`"),
        (["1.."], "size ''"),
        (["..4"], "size ''"),
        (["1..2..3"], "2..3"),
        ([], "no size is left"),
    ],
)
def test_ranges_that_are_none(texts, message):
    with pytest.raises(InputError, match=message):
        parse_sizes(texts)


@pytest.mark.parametrize(
    ("numel", "text"), [(1, "1"), (512, "512"), (1024, "2^10"), (1025, "1,025"), (2**26, "2^26")]
)
def test_sizes_are_shown_short(numel, text):
    assert format_size(numel) == text
    assert parse_size(text.replace(",", "")) == numel


def test_what_does_not_fit_is_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(preflight, "free_memory_bytes", lambda device: 1000)
    check_memory(900, CPU, what="it", instead="buy more")
    with pytest.raises(InputError, match=r"^it needs 901 B at its peak, and 1.00 kB is free on cpu: buy more$"):
        check_memory(901, CPU, what="it", instead="buy more")


def test_unknown_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(preflight, "free_memory_bytes", lambda device: None)
    check_memory(1 << 60, CPU, what="it", instead="")


def test_free_memory_is_the_least_of_what_is_known(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   50 kB\n")
    (tmp_path / "memory.max").write_text("40960\n")
    (tmp_path / "memory.current").write_text("1000\n")
    monkeypatch.setattr(preflight, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(preflight, "_CGROUP", tmp_path)
    assert preflight.free_memory_bytes(CPU) == 39960
    (tmp_path / "memory.max").write_text("max\n")
    assert preflight.free_memory_bytes(CPU) == 51200


def test_free_memory_without_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(preflight, "_CGROUP", tmp_path)
    monkeypatch.setattr(preflight.os, "sysconf", lambda name: 10)
    assert preflight.free_memory_bytes(CPU) == 100
    monkeypatch.delattr(preflight.os, "sysconf")
    monkeypatch.setattr(preflight, "memory_bytes", lambda: 7)
    assert preflight.free_memory_bytes(CPU) == 7


def test_outputs_that_can_be_written_leave_no_trace(tmp_path):
    kept = tmp_path / "old.json"
    kept.write_text("kept")
    check_outputs(plot=tmp_path / "a.PNG", html=tmp_path / "a.html", json=kept)
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"plot": "a.pdf"}, "must end in .png or .svg"),
        ({"plot": "a"}, "must end in .png or .svg"),
        ({"html": "none/a.html"}, "there is no folder"),
        ({"json": "."}, "is a folder"),
        ({"html": "a", "json": "./a"}, "name the same file"),
        ({"json": "a" * 300}, "cannot be written"),
        ({"json": "a\0b"}, "cannot be written"),
    ],
)
def test_outputs_that_cannot_be_written(monkeypatch, tmp_path, outputs, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        check_outputs(**{option: preflight.Path(name) for option, name in outputs.items()})
    assert not list(tmp_path.iterdir())


def test_write_protected_files_are_refused(monkeypatch, tmp_path):
    (tmp_path / "a.json").touch(mode=0o400)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
    with pytest.raises(InputError, match="write-protected"):
        check_outputs(json=tmp_path / "a.json")


def test_a_plot_needs_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'torchcopy\[plots\]'"):
        check_outputs(plot=tmp_path / "a.png")
    check_outputs(html=tmp_path / "a.html")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "3", None])
def test_times_that_are_none(seconds):
    with pytest.raises(InputError, match="max_seconds"):
        preflight.check_max_seconds(seconds)
