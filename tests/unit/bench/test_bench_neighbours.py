import types

import pytest

from torchcopy.bench import neighbours


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Two processors, and a clock of its own: seconds of others, of this process, and on the wall."""
    state = types.SimpleNamespace(others=5.0, own=1.0, wall=0.0)

    class Stat:
        def read_text(self, encoding):
            busy = round(100 * (state.others + state.own))
            return f"cpu  {busy - 7} 1 2 99999 88888 1 1 2 0 0\ncpu0 1 2 3\n"

    monkeypatch.setattr(neighbours, "_STAT", Stat())
    monkeypatch.setattr(neighbours.os, "times", lambda: types.SimpleNamespace(user=state.own - 0.5, system=0.5))
    monkeypatch.setattr(neighbours.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(neighbours.os, "sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: state.wall)
    state.stat_path = tmp_path / "none"
    return state


def test_what_others_used(machine):
    share = neighbours.watch_neighbours()
    machine.wall, machine.own, machine.others = 10.0, 11.0, 10.0
    assert share() == pytest.approx(0.25)  # five of twenty seconds


def test_nobody_else(machine):
    share = neighbours.watch_neighbours()
    machine.wall, machine.own = 10.0, 21.0
    assert share() == pytest.approx(0.0)


def test_too_short_to_tell(machine):
    share = neighbours.watch_neighbours()
    machine.wall, machine.others = 0.1, 6.0
    assert share() is None


def test_a_count_that_stands_still_tells_nothing(machine):
    share = neighbours.watch_neighbours()
    machine.wall, machine.own, machine.others = 10.0, 11.0, -5.0
    assert share() is None


def test_systems_without_proc(machine, monkeypatch):
    monkeypatch.setattr(neighbours, "_STAT", machine.stat_path)
    share = neighbours.watch_neighbours()
    machine.wall = 10.0
    assert share() is None
