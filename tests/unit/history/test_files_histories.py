"""A history as a directory: what is written again and what is not, what goes, and what it is loaded as."""

import enum
import fractions
import json
import math
import shutil
import threading
from concurrent import futures

import numpy as np
import pytest
import torch
import xxhash
from test_files_values import same
from torch import nn

import torchcopy as tc
from torchcopy.history.files import histories


def _run():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, optimizer


def _step(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def _directories(place):
    return {path.name: path.stat().st_ino for path in place.iterdir() if path.is_dir()}


@pytest.fixture(params=["eager", "lazy", "background"])
def run(request):
    """A run of four steps and its history."""
    model, optimizer = _run()
    history = tc.History(model=model, optimizer=optimizer, mode=request.param, keep=3, keep_best={"loss": "min"})
    for step in range(4):
        history.take(step=step, loss=_step(model, optimizer))
    return model, optimizer, history


def test_a_loaded_history_is_what_was_saved(run, tmp_path):
    model, optimizer, history = run
    history.save(tmp_path / "h")
    loaded = tc.History.load(tmp_path / "h", model=model, optimizer=optimizer)
    assert (loaded.keep, loaded.keep_best, loaded.mode) == (3, {"loss": "min"}, history.mode)
    assert (loaded.max_bytes, loaded.device) == (None, None)
    assert [s.labels for s in loaded] == [s.labels for s in history]
    assert [(s.number, s.taken_at, s.mode) for s in loaded] == [(s.number, s.taken_at, "loaded") for s in history]
    assert loaded.records == history.records
    for a, b in zip(history, loaded, strict=True):
        assert a.parts == b.parts
        for name in a.parts:
            same(a.state(name), b.state(name))
    assert loaded.best("loss").labels == history.best("loss").labels


def test_a_loaded_history_restores_and_goes_on(run, tmp_path):
    model, optimizer, history = run
    history.save(tmp_path / "h")
    losses = [_step(model, optimizer) for _ in range(3)]
    fresh_model, fresh_optimizer = _run()
    loaded = tc.History.load(tmp_path / "h", model=fresh_model, optimizer=fresh_optimizer)
    loaded[-1].restore()
    assert [_step(fresh_model, fresh_optimizer) for _ in range(3)] == losses
    expected = [s.state_dict("model") for s in loaded]
    taken = loaded.take(step=7, loss=-1.0)
    assert taken.number == 4
    assert len(loaded) == 3
    loaded.save(tmp_path / "h")
    again = tc.History.load(tmp_path / "h")
    assert [s.labels["step"] for s in again] == [2, 3, 7]
    same([s.state_dict("model") for s in again][:2], expected[-2:])
    with torch.no_grad():
        fresh_model.weight.zero_()
    same(again[-1].state_dict("model"), taken.state_dict("model"))


def test_what_is_there_is_not_written_again_and_what_has_gone_is_removed(run, tmp_path):
    model, optimizer, history = run
    history.save(tmp_path / "h")
    before = _directories(tmp_path / "h")
    history.save(tmp_path / "h")
    assert _directories(tmp_path / "h") == before
    history.take(step=4, loss=math.nan)
    history.save(tmp_path / "h")
    after = _directories(tmp_path / "h")
    assert len(after) == len(history)
    assert sum(before.get(name) == inode for name, inode in after.items()) == len(history) - 1
    loaded = tc.History.load(tmp_path / "h", model=model, optimizer=optimizer)
    loaded.save(tmp_path / "h")  # what was loaded from there is there
    assert _directories(tmp_path / "h") == after


def test_one_bit_that_has_changed_on_the_disk_is_written_again(run, tmp_path):
    *_, history = run
    history.save(tmp_path / "h")
    before = _directories(tmp_path / "h")
    (damaged,) = (tmp_path / "h").glob(f"{history[0].number:06d}-*/model.safetensors")
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    history.save(tmp_path / "h")
    assert set(before) - set(_directories(tmp_path / "h")) == {damaged.parent.name}
    loaded = tc.History.load(tmp_path / "h")
    for a, b in zip(history, loaded, strict=True):
        same(a.state_dict("model"), b.state_dict("model"))


def test_changed_labels_and_damaged_files_are_written_again(run, tmp_path):
    *_, history = run
    history.save(tmp_path / "h")
    before = _directories(tmp_path / "h")
    history[-1].labels["note"] = "good"
    (damaged,) = (tmp_path / "h").glob(f"{history[0].number:06d}-*")
    (damaged / "model.safetensors").write_bytes(b"x")
    history.save(tmp_path / "h")
    after = _directories(tmp_path / "h")
    assert len(set(before) & set(after)) == len(before) - 2
    loaded = tc.History.load(tmp_path / "h")
    assert loaded[-1].labels["note"] == "good"
    same(loaded[0].state_dict("model"), history[0].state_dict("model"))


def test_leftovers_are_removed_and_other_peoples_files_stay(run, tmp_path):
    *_, history = run
    place = tmp_path / "h"
    (place / "000009-0123456789ab").mkdir(parents=True)  # killed before there was a list
    (place / "000009-0123456789ab" / "model.safetensors").write_text("half")
    (place / "history.json.0123.part").write_text("half")
    with pytest.raises(tc.CorruptSnapshotError, match=r"has no history.json"):
        tc.History.load(place)
    history.save(place)
    (place / "notes.txt").write_text("mine")
    history.save(place)
    assert {p.name for p in place.iterdir() if p.is_file()} == {"history.json", "notes.txt"}
    assert len(_directories(place)) == len(history)


def test_options_can_be_others_and_objects_fewer(run, tmp_path):
    model, _, history = run
    history.save(tmp_path / "h")
    others = {"keep": 1, "keep_best": None, "mode": "eager", "rng": False, "max_bytes": 5}
    loaded = tc.History.load(tmp_path / "h", model=model, **others)
    assert (len(loaded), loaded.keep, loaded.mode, loaded.max_bytes) == (1, 1, "eager", 5)
    loaded[0].restore()
    same(dict(model.state_dict()), dict(history[-1].state_dict("model")))


def test_a_history_without_objects_is_to_look_at(run, tmp_path):
    model, _, history = run
    history.save(tmp_path / "h")
    loaded = tc.History.load(tmp_path / "h")
    assert loaded.best("loss").labels == history.best("loss").labels
    built = loaded[-1].build(model=lambda: nn.Linear(3, 2))
    same(built.state_dict(), history[-1].state_dict("model"))
    with pytest.raises(tc.InputError, match="this history has no live objects: load it with them"):
        loaded.take()
    with pytest.raises(tc.InputError, match="this snapshot has no live objects: say which"):
        loaded[-1].restore()
    assert "3 snapshots" in repr(loaded) or "4 snapshots" in repr(loaded)
    assert isinstance(model, nn.Module)


def test_what_cannot_be_saved_leaves_what_was_there(tmp_path):
    values = {"a": 1}
    history = tc.History(v=values, rng=False)
    history.take(step=1)
    history.save(tmp_path / "h")
    before = {p: p.read_bytes() for p in (tmp_path / "h").rglob("*") if p.is_file()}
    values["f"] = [lambda: 0]
    history.take(step=2)
    for place in ("h", "new"):
        with pytest.raises(tc.InputError, match=r"nothing was saved: v\['f'\]\[0\]: a function"):
            history.save(tmp_path / place)
    assert {p: p.read_bytes() for p in (tmp_path / "h").rglob("*") if p.is_file()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["h"]


# --- what is wrong ---------------------------------------------------------------------------------------------


def _reseal(place, change):
    index = json.loads((place / "history.json").read_text())
    del index["checksum"]
    change(index)
    rest = json.dumps(index).removeprefix("{").encode()
    (place / "history.json").write_bytes(
        b'{"checksum": "xxh3-128:%s",\n' % xxhash.xxh3_128_hexdigest(rest).encode() + rest
    )


def _swap(place):
    a, b = sorted(p for p in place.iterdir() if p.is_dir())
    a.rename(place / "x")
    b.rename(a)
    (place / "x").rename(b)


def _remove_one(place):
    shutil.rmtree(sorted(p for p in place.iterdir() if p.is_dir())[0])


def _damage_one(place):
    path = next(place.glob("000000-*/v.safetensors"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _link_one(place):
    first = sorted(p for p in place.iterdir() if p.is_dir())[0]
    first.rename(place.parent / "elsewhere")
    first.symlink_to(place.parent / "elsewhere")


WRONG = {
    "swapped": (_swap, r"000000-\w+ is another snapshot than the one that was saved there"),
    "missing": (_remove_one, r"000000-\w+ is missing"),
    "linked": (_link_one, r"000000-\w+ is missing"),
    "damaged": (_damage_one, r"000000-\w+/v.safetensors 't' was changed: its checksum does not match"),
    "list": (lambda p: (p / "history.json").write_text("{}"), "does not begin as a torchcopy history"),
    "up": (lambda p: _reseal(p, lambda x: x["snapshots"][0].update(directory="../x")), "names a directory '../x'"),
    "keep": (
        lambda p: _reseal(p, lambda x: x["options"].update(keep=-1)),
        "has options that are none: `keep`",
    ),
    "mode": (lambda p: _reseal(p, lambda x: x["options"].update(mode="x")), "has options that are none"),
    "device": (lambda p: _reseal(p, lambda x: x["options"].update(device="x")), "has options that are none"),
    "count": (lambda p: _reseal(p, lambda x: x.update(count=-3)), "`count` must be a number from 0 on; found -3"),
    "taken": (lambda p: _reseal(p, lambda x: x.update(taken=[[0, {"tensor": 0}]])), "there can be no tensors here"),
    "version": (lambda p: _reseal(p, lambda x: x.update(version=9)), "has format version 9"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_the_path(tmp_path, name):
    damage, message = WRONG[name]
    place = tmp_path / "h"
    history = tc.History(v={"t": torch.ones(3)}, rng=False)
    history.take(step=0)
    history.take(step=1)
    history.save(place)
    damage(place)
    with pytest.raises(tc.CorruptSnapshotError, match=message) as caught:
        tc.History.load(place)
    assert str(caught.value).startswith(str(place))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"modle": 1}, "no snapshot there has a part 'modle': they have model, optimizer, rng"),
        ({"model": {}}, "`model` was saved as a part of kind 'module'; got 'values': dict"),
        ({"optimizer": nn.ReLU()}, "`optimizer` was saved as a part of kind 'optimizer'; got 'module': ReLU"),
        ({"keep": 0}, "`keep` must be a number of snapshots"),
        ({"mode": "x"}, "`mode` must be one of"),
        ({"model": nn.Linear}, "`model` is a class"),
        ({"max_bytes": -1}, "`max_bytes` must be"),
        ({"rng": 1}, "`rng` must be True or False"),
        ({"device": "nowhere"}, "nowhere"),
        ({"keep_best": {"loss": "least"}}, "must be 'min' or 'max'"),
    ],
)
def test_wrong_objects_and_options_are_told(tmp_path, given, message):
    model, optimizer = _run()
    history = tc.History(model=model, optimizer=optimizer)
    history.take()
    history.save(tmp_path / "h")
    with pytest.raises(tc.InputError, match=message) as caught:
        tc.History.load(tmp_path / "h", **given)
    assert "\n" not in str(caught.value)


# --- what goes wrong while it is written -----------------------------------------------------------------------


def _two_steps():
    model = nn.Linear(3, 2)
    history = tc.History(model=model, rng=False, keep=1)
    history.take(step=0)
    return model, history


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("first", [True, False])
def test_a_save_that_fails_at_any_sync_leaves_a_history_that_loads(tmp_path, monkeypatch, error, first):
    """The list of snapshots may be in its place by then: what it names has to stay."""
    for failing in range(6):
        model, history = _two_steps()
        place = tmp_path / str(failing)
        if not first:
            history.save(place)
        with torch.no_grad():
            model.weight.fill_(7.0)
        history.take(step=1)
        calls = iter(range(100))

        def sync(path, calls=calls, failing=failing):
            if next(calls) == failing:
                raise error("now")

        with monkeypatch.context() as patched:
            patched.setattr(histories, "sync", sync)
            try:
                history.save(place)
            except error:
                completed = False
            else:
                completed = True
        assert completed == (next(calls) <= failing)
        if first and not place.exists():
            assert not completed
            continue
        loaded = tc.History.load(place)
        assert loaded[0].labels["step"] in ((1,) if completed or first else (0, 1))
        assert bool((loaded[0].state_dict("model")["weight"] == 7.0).all()) == (loaded[0].labels["step"] == 1)


def test_two_first_saves_at_once_leave_what_the_second_wrote(tmp_path, monkeypatch):
    """The first fails and cleans up while the second waits for the directory."""
    place = tmp_path / "h"
    _, failing = _two_steps()
    _, waiting = _two_steps()
    with torch.no_grad():
        expected = {name: t.clone() for name, t in waiting[0].state_dict("model").items()}
    thread = threading.Thread(target=waiting.save, args=(place,))

    asked = threading.Event()

    def fail(*_):
        thread.start()
        assert asked.wait(30)
        raise OSError("disk full")

    def lock(descriptor, *, wait):
        if threading.current_thread() is thread:
            asked.set()
        return real_lock(descriptor, wait=wait)

    real, real_lock = histories.write_into, histories.lock
    monkeypatch.setattr(histories, "lock", lock)
    monkeypatch.setattr(histories, "write_into", lambda *a: fail() if a[1] is failing[0] else real(*a))
    with pytest.raises(OSError, match="disk full"):
        failing.save(place)
    thread.join(30)
    assert not thread.is_alive()
    same(dict(tc.History.load(place)[0].state_dict("model")), expected)


class Phase(enum.IntEnum):
    WARM = 2


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.mean([0.3]), 0.3),
        (np.str_("a"), "a"),
        (Phase.WARM, 2),
        (torch.tensor([0.5], requires_grad=True), 0.5),
        (type("Name", (str,), {})("b"), "b"),
        (True, True),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_labels_that_were_changed_are_saved_as_plain_values(tmp_path, value, plain, kept):
    _, history = _two_steps()
    history[0].labels["note"] = value
    if kept:
        history[0].save(tmp_path / "s")
        loaded = tc.Snapshot.load(tmp_path / "s").labels["note"]
        assert (loaded, type(loaded)) == (plain, type(plain))
    else:
        history.take(step=1)  # its label stays among the records
    for _ in range(2):
        history.save(tmp_path / "h")
        loaded = tc.History.load(tmp_path / "h").records[0].labels["note"]
        assert (loaded, type(loaded)) == (plain, type(plain))


@pytest.mark.parametrize(
    ("name", "value"), [("note", ["a"]), ("note", 10**400), ("note", fractions.Fraction(10**400)), (3, 1)]
)
@pytest.mark.parametrize("kept", [True, False])
def test_labels_that_could_not_be_loaded_are_refused_before_anything_is_written(tmp_path, name, value, kept):
    _, history = _two_steps()
    history[0].labels[name] = value
    if not kept:
        history.take(step=1)
    saves = [history.save, history[0].save] if kept else [history.save]
    for save in saves:
        with pytest.raises(tc.InputError, match=r"nothing was saved: (`note` must be|the name of a label must be)"):
            save(tmp_path / "h")
    assert list(tmp_path.iterdir()) == []


def test_options_that_could_not_be_loaded_are_refused_before_anything_is_written(tmp_path):
    _, history = _two_steps()
    history.keep = -1
    with pytest.raises(tc.InputError, match="nothing was saved: the history has options that are none: `keep`"):
        history.save(tmp_path / "h")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_snapshots_are_taken_while_a_history_is_written(tmp_path, monkeypatch, mode):
    model = nn.Linear(3, 2)
    history = tc.History(model=model, rng=False, keep=1, mode=mode)
    history.take(step=0)
    with torch.no_grad():
        expected = {name: t.clone() for name, t in model.state_dict().items()}
    writing, taken = threading.Event(), threading.Event()
    real = histories.write_into

    def write_into(*args):
        writing.set()
        assert taken.wait(60), "take waited for the save"
        return real(*args)

    monkeypatch.setattr(histories, "write_into", write_into)
    with futures.ThreadPoolExecutor(1) as pool:
        saving = pool.submit(history.save, tmp_path / "h")
        assert writing.wait(60)
        for step in (1, 2):
            with torch.no_grad():
                model.weight.fill_(step)
            history.take(step=step)
        with torch.no_grad():
            model.weight.fill_(9.0)
        taken.set()
        saving.result(60)
    loaded = tc.History.load(tmp_path / "h")
    assert [each.labels for each in loaded] == [{"step": 0}]
    assert [each.number for each in loaded.records] == [0]
    same(dict(loaded[0].state_dict("model")), expected)
    assert bool((history[0].state_dict("model")["weight"] == 2).all())


# --- names and devices -----------------------------------------------------------------------------------------

NAMES = ("path", "self", "cls", "name", "labels", "objects", "snapshot", "part")


@pytest.mark.parametrize("name", NAMES)
def test_a_part_and_a_label_may_have_the_name_of_a_parameter(tmp_path, name):
    model = nn.Linear(3, 2)
    history = tc.History(**{name: model}, rng=False)
    history.take(**{name: 1})
    expected = model.weight.detach().clone()
    history.save(tmp_path / "h")
    history[0].save(tmp_path / "s")
    loaded = tc.History.load(tmp_path / "h", **{name: model})
    for snapshot in (loaded.at(**{name: 1}), tc.Snapshot.load(tmp_path / "s")):
        with torch.no_grad():
            model.weight.zero_()
        snapshot.restore(**{name: model})
        assert torch.equal(model.weight, expected)
        assert torch.equal(snapshot.build(**{name: lambda: nn.Linear(3, 2)}).weight, expected)


@pytest.fixture
def from_a_machine_with_more(tmp_path):
    _, history = _two_steps()
    history.device = torch.device("cuda:77")
    history.save(tmp_path / "h")
    return history[0].state_dict("model")


def test_a_history_from_a_device_that_is_not_here_can_be_looked_at(tmp_path, from_a_machine_with_more):
    loaded = tc.History.load(tmp_path / "h")
    same(dict(loaded[0].state_dict("model")), dict(from_a_machine_with_more))
    assert loaded.device == torch.device("cuda:77")
    loaded.save(tmp_path / "again")
    assert tc.History.load(tmp_path / "again").device == torch.device("cuda:77")
    assert tc.History.load(tmp_path / "h", device=None).device is None
    assert tc.History.load(tmp_path / "h", device="cpu").device == torch.device("cpu")


def test_a_history_from_a_device_that_is_not_here_says_how_to_go_on(tmp_path, from_a_machine_with_more):
    model = nn.Linear(3, 2)
    with pytest.raises(tc.InputError, match=r"`device='cuda:77'`: .* or load it with `device=None`") as caught:
        tc.History.load(tmp_path / "h", model=model)
    assert "\n" not in str(caught.value)
    loaded = tc.History.load(tmp_path / "h", model=model, device=None)
    loaded[0].restore()
    same(dict(model.state_dict()), dict(from_a_machine_with_more))
    loaded.take(step=2)
    assert len(loaded) == 1
