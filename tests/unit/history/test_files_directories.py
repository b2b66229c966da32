"""What is replaced by a save and what is not, what killed saves leave, and what wrong files and inputs are told."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import xxhash

import torchcopy as tc
from torchcopy.history.files import directories


def _snapshot(value, **more):
    return tc.History(v={"t": torch.full((50,), float(value)), "n": value}, rng=False).take(value=value, **more)


def _names(place):
    return sorted(path.name for path in place.iterdir())


def _value(path):
    state = tc.Snapshot.load(path).state("v")
    assert torch.equal(state["t"], torch.full((50,), float(state["n"])))
    return state["n"]


@pytest.fixture(params=["exchanged", "moved aside"])
def _how(request, monkeypatch):
    """With the call of the system that exchanges directories, and without."""
    if request.param == "moved aside":
        monkeypatch.setattr(directories, "_exchange", lambda a, b: False)


@pytest.mark.usefixtures("_how")
def test_a_save_replaces_what_was_saved_there(tmp_path):
    for value in range(3):
        _snapshot(value).save(tmp_path / "s")
        assert _value(tmp_path / "s") == value
        assert _names(tmp_path) == ["s"]
    (tmp_path / "empty").mkdir()
    _snapshot(4).save(tmp_path / "empty")
    assert _value(tmp_path / "empty") == 4


def test_files_have_the_permissions_that_the_users_files_have(tmp_path):
    _snapshot(1).save(tmp_path / "s")
    (tmp_path / "mine").touch()
    expected = (tmp_path / "mine").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "s").iterdir()} == {expected}


@pytest.mark.usefixtures("_how")
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2750])
def test_a_directory_keeps_its_permissions(tmp_path, mode):
    _snapshot(1).save(tmp_path / "s")
    (tmp_path / "s").chmod(mode)
    _snapshot(2).save(tmp_path / "s")
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == mode
    assert _value(tmp_path / "s") == 2


@pytest.mark.usefixtures("_how")
def test_what_a_system_puts_into_a_directory_that_was_looked_at_stops_no_save(tmp_path):
    (tmp_path / "s").mkdir()
    for value in range(3):
        (tmp_path / "s" / ".DS_Store").write_text("x")
        _snapshot(value).save(tmp_path / "s")
        assert _value(tmp_path / "s") == value
    values = {"n": 0}
    history = tc.History(v=values, rng=False, keep=1)
    (tmp_path / "h").mkdir()
    for value in range(3):
        for place in ((tmp_path / "h"), *(p for p in (tmp_path / "h").iterdir() if p.is_dir())):
            (place / ".DS_Store").write_text("x")
        values["n"] = value
        history.take(value=value)
        history.save(tmp_path / "h")
        assert [s.state("v") for s in tc.History.load(tmp_path / "h")] == [{"n": value}]
        assert len([p for p in (tmp_path / "h").iterdir() if p.is_dir()]) == 1


def test_links_to_a_directory_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "latest").symlink_to(tmp_path / "real" / "s")
    _snapshot(1).save(tmp_path / "link" / "s")
    _snapshot(2).save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert _value(tmp_path / "real" / "s") == 2
    assert _value(str(tmp_path / "latest")) == 2


def _listing(place):
    return {p.relative_to(place): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


def _other_files(place):
    (place / "s").mkdir()
    (place / "s" / "thesis.tex").write_text("x")


def _a_file(place):
    (place / "s").write_text("x")


def _snapshot_with_notes(place):
    _snapshot(1).save(place / "s")
    (place / "s" / "notes.txt").write_text("x")


def _damaged_snapshot(place):
    _snapshot(1).save(place / "s")
    (place / "s" / "snapshot.json").write_text("{}")


def _history(place):
    tc.History(v=torch.ones(1)).save(place / "s")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_other_files, r"is a directory with other files \(thesis.tex\): a snapshot would replace all of it"),
        (_a_file, "is a file: a snapshot is a directory"),
        (_snapshot_with_notes, r"is a snapshot with other files beside it \(notes.txt\): they would be lost"),
        (_damaged_snapshot, "is no snapshot that can be read .*: remove it first"),
        (_history, r"is a directory with other files \(history.json\)"),
    ],
)
def test_what_is_no_snapshot_is_not_replaced(tmp_path, make, message):
    make(tmp_path)
    before = _listing(tmp_path)
    with pytest.raises(tc.InputError, match=message) as caught:
        _snapshot(2).save(tmp_path / "s")
    assert "\n" not in str(caught.value)
    assert "Nothing was written" in str(caught.value)
    assert _listing(tmp_path) == before


def test_files_that_come_during_a_save_are_not_replaced(tmp_path, monkeypatch):
    from torchcopy.history.files import saving

    _snapshot(1).save(tmp_path / "s")
    write = saving.write_into

    def slow(*args):
        (tmp_path / "s" / "notes.txt").write_text("x")
        return write(*args)

    monkeypatch.setattr(saving, "write_into", slow)
    with pytest.raises(tc.InputError, match="they would be lost"):
        _snapshot(2).save(tmp_path / "s")
    assert (tmp_path / "s" / "notes.txt").read_text() == "x"
    assert _names(tmp_path) == ["s"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (3, "`path` must be a str or a path; got int: 3"),
        (None, "`path` must be a str or a path; got NoneType"),
        (b"x", "`path` must be a str or a path; got bytes"),
        ("", "`path` must name a directory; got ''"),
        ("a\0b", "`path` must name a directory"),
        ("/", "is no place to save to"),
        ("missing/s", "missing is no directory: make it first"),
        ("x" * 250, "is too long for a directory"),
        ("file/s", "file is no directory"),
        ("file", "is a file"),
    ],
)
def test_wrong_paths_to_save_to_are_told(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    for saved in (_snapshot(1), tc.History(v=torch.ones(1))):
        with pytest.raises(tc.InputError, match=message) as caught:
            saved.save(path)
        assert "\n" not in str(caught.value)
    assert _names(tmp_path) == ["file"]


# --- what killed saves leave -----------------------------------------------------------------------------------


def test_leftovers_of_killed_saves_go_with_the_next_and_those_of_living_ones_stay(tmp_path):
    dead, other = tmp_path / ".s.torchcopy-new-dead", tmp_path / ".t.torchcopy-new-dead"
    alive = tmp_path / ".s.torchcopy-new-alive"
    for left in (dead, other, alive):
        left.mkdir()
        (left / "half.safetensors").write_text("x")
    held = directories._locked(alive)
    _snapshot(1).save(tmp_path / "s")
    assert _names(tmp_path) == sorted(["s", other.name, alive.name])
    os.close(held)
    _snapshot(2).save(tmp_path / "s")
    assert _names(tmp_path) == sorted(["s", other.name])


def test_a_save_killed_between_two_renames_has_lost_nothing(tmp_path):
    _snapshot(1).save(tmp_path / "s")
    (tmp_path / "s").rename(tmp_path / ".s.torchcopy-old")
    assert _value(tmp_path / "s") == 1
    with pytest.raises(tc.InputError, match="nothing was saved"):
        tc.History(v=[lambda: 0]).take().save(tmp_path / "s")
    assert _value(tmp_path / "s") == 1
    _snapshot(2).save(tmp_path / "s")
    assert _value(tmp_path / "s") == 2
    assert _names(tmp_path) == ["s"]
    shutil.copytree(tmp_path / "s", tmp_path / ".s.torchcopy-old")  # killed after the second
    _snapshot(3).save(tmp_path / "s")
    assert _value(tmp_path / "s") == 3
    assert _names(tmp_path) == ["s"]


_FULL = """
import resource, sys, torch, torchcopy as tc
snapshot = tc.History(v=torch.ones(300_000), rng=False).take()
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
try:
    snapshot.save(sys.argv[1])
except OSError as error:
    print(type(error).__name__, error)
"""


def test_a_save_that_the_system_refuses_leaves_what_was_there(tmp_path):
    _snapshot(1).save(tmp_path / "s")
    command = [sys.executable, "-c", _FULL, str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "OSError" in done.stdout
    assert "File too large" in done.stdout
    assert _value(tmp_path / "s") == 1
    assert _names(tmp_path) == ["s"]


# --- what is wrong with files ----------------------------------------------------------------------------------


def _reseal(place, change):
    path = place / "snapshot.json"
    manifest = json.loads(path.read_text())
    del manifest["checksum"]
    change(manifest)
    rest = json.dumps(manifest).removeprefix("{").encode()
    path.write_bytes(b'{"checksum": "xxh3-128:%s",\n' % xxhash.xxh3_128_hexdigest(rest).encode() + rest)


def _set(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(manifest):
        for key in keys:
            manifest = manifest[key]
        manifest[last] = value

    return lambda place: _reseal(place, change)


def _deep(place):
    text = '"version": 1,"x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    rest = text.encode()
    data = b'{"checksum": "xxh3-128:%s",\n' % xxhash.xxh3_128_hexdigest(rest).encode() + rest
    (place / "snapshot.json").write_bytes(data)


def _link(place):
    (place / "v.safetensors").rename(place.parent / "elsewhere")
    (place / "v.safetensors").symlink_to("../elsewhere")


def _pipe(place):
    (place / "v.safetensors").unlink()
    os.mkfifo(place / "v.safetensors")


def _cut(place):
    os.truncate(place / "v.safetensors", 100)


def _flip(place):
    data = bytearray((place / "v.safetensors").read_bytes())
    data[-3] ^= 1
    (place / "v.safetensors").write_bytes(data)


def _huge_header(place):
    data = (place / "v.safetensors").read_bytes()
    (place / "v.safetensors").write_bytes((2**62).to_bytes(8, "little") + data[8:])


def _pickle(place):
    torch.save({"t": torch.ones(3)}, place / "v.safetensors")


def _twice(place):
    rest = b'"format": "torchcopy snapshot", "format": "torchcopy snapshot", "version": 1}'
    data = b'{"checksum": "xxh3-128:%s",\n' % xxhash.xxh3_128_hexdigest(rest).encode() + rest
    (place / "snapshot.json").write_bytes(data)


WRONG = {
    "cut off": (_cut, "v.safetensors has 100 bytes; .* were written"),
    "a bit": (_flip, "v.safetensors 't' was changed: its checksum does not match"),
    "huge header": (_huge_header, "v.safetensors is no safetensors file: its header would be longer"),
    "foreign": (_pickle, "v.safetensors has .* bytes; .* were written"),
    "missing": (lambda place: (place / "v.safetensors").unlink(), "v.safetensors is missing"),
    "link": (_link, "v.safetensors is a symbolic link, which is not followed"),
    "pipe": (_pipe, "v.safetensors is no file"),
    "no manifest": (lambda place: (place / "snapshot.json").unlink(), "has no snapshot.json, so it is no snapshot"),
    "empty": (lambda place: (place / "snapshot.json").write_text(""), "does not begin as a torchcopy snapshot"),
    "changed": (
        lambda place: (place / "snapshot.json").write_text((place / "snapshot.json").read_text() + " "),
        "snapshot.json was changed or cut off",
    ),
    "newer": (_set("version", 2), "has format version 2; this torchcopy reads version 1"),
    "other format": (_set("format", "x"), "snapshot.json is no torchcopy snapshot: its format is 'x'"),
    "kind": (_set("parts", "v", "kind", "pickle"), "the kind 'pickle', which is not known"),
    "up": (_set("files", {"../v.safetensors": {}}), "names a file '../v.safetensors'"),
    "absolute": (_set("files", {"/etc/passwd": {}}), "names a file '/etc/passwd'"),
    "nan": (_set("number", float("nan")), "has NaN where a number is expected"),
    "float": (_set("number", 1.5), "`number` must be of type int; found 1.5"),
    "huge": (_set("tensors", 0, "shape", [2**40, 2**40]), r"tensors\[0\] has 200 bytes; its shape has"),
    "gaps": (_set("tensors", 0, "strides", [2**50]), "reaches over far more memory than it has elements"),
    "negative": (_set("tensors", 0, "strides", [-1]), "`strides` must be a list of numbers from 0 on"),
    "slots": (_set("slot_count", 9), "has 1 tensors; `slot_count` is 9"),
    "other tensor": (_set("parts", "v", "state", {"tensor": 1}), "there is no tensor 1"),
    "label": (_set("labels", "value", [1]), r"the label 'value' is \[1\]"),
    "deep": (_deep, "snapshot.json has too many values inside each other"),
    "twice": (_twice, "has the same key twice in one object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_the_path(tmp_path, name):
    damage, message = WRONG[name]
    place = tmp_path / "s"
    _snapshot(1).save(place)
    damage(place)
    with pytest.raises(tc.CorruptSnapshotError, match=message) as caught:
        tc.Snapshot.load(place)
    assert str(caught.value).startswith(str(place))
    assert str(caught.value).endswith("Nothing was loaded")
    assert "\n" not in str(caught.value)


def test_wrong_paths_to_load_from_are_told(tmp_path):
    (tmp_path / "file").write_text("x")
    tc.History(v=torch.ones(1)).save(tmp_path / "h")
    _snapshot(1).save(tmp_path / "s")
    for load in (tc.Snapshot.load, tc.History.load):
        with pytest.raises(tc.InputError, match=r"there is nothing at .*missing: give the directory"):
            load(tmp_path / "missing")
        with pytest.raises(tc.CorruptSnapshotError, match="file is a file, not a directory"):
            load(tmp_path / "file")
        for path in (3, None, b"x", [], "", "a\0"):
            with pytest.raises(tc.InputError, match="`path` must"):
                load(path)
    with pytest.raises(tc.CorruptSnapshotError, match=r"so it is no snapshot: it is a history, see `History.load`"):
        tc.Snapshot.load(tmp_path / "h")
    with pytest.raises(
        tc.CorruptSnapshotError, match=r"so it is no history: it is a snapshot, see `Snapshot.load`"
    ):
        tc.History.load(tmp_path / "s")


# --- files that change under a loaded snapshot -----------------------------------------------------------------


@pytest.mark.parametrize("change", [_cut, _flip], ids=["cut off", "written"])
def test_a_file_that_changes_after_it_was_loaded_is_told_not_read(tmp_path, change):
    _snapshot(1).save(tmp_path / "s")
    loaded = tc.Snapshot.load(tmp_path / "s")
    os.utime(tmp_path / "s" / "v.safetensors", ns=(0, 0)) if change is _flip else None
    change(tmp_path / "s")
    with pytest.raises(tc.CorruptSnapshotError, match="was changed after it had been loaded"):
        loaded.state("v")


def test_a_snapshot_that_is_replaced_or_removed_stays_what_was_loaded(tmp_path):
    _snapshot(1).save(tmp_path / "s")
    first = tc.Snapshot.load(tmp_path / "s")
    _snapshot(2).save(tmp_path / "s")
    second = tc.Snapshot.load(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    assert first.state("v")["t"].tolist() == [1.0] * 50
    assert second.state("v")["t"].tolist() == [2.0] * 50
    second.save(tmp_path / "again")
    assert _value(tmp_path / "again") == 2


def test_loading_reads_what_is_mapped(tmp_path):
    t = torch.zeros(1 << 20)
    tc.History(t=t, rng=False).take().save(tmp_path / "s")
    loaded = tc.Snapshot.load(tmp_path / "s")
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "t.safetensors" in line]
    first, last = (int(x, 16) for x in mapped[0].split()[0].split("-"))
    assert first <= loaded._tensors()[0].data_ptr() < last
