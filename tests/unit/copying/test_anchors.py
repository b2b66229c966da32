"""Anchors are held as long as somebody shares the bytes, and no longer; and what the thread behind them does."""

import collections
import gc
import os
import subprocess
import sys
import threading
import time
import types

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from torchcopy import _torch_private as private
from torchcopy.copying.copy_on_write import anchor_pool, anchor_table, anchors, lazy
from torchcopy.copying.copy_on_write.lazy import lazy_clones

pool = anchors.pool


def lazy_clone(source):
    ((clone,),) = lazy_clones([source])
    return clone


def wait_for(condition):
    """Whether the condition comes true by itself, within a time that no machine is too slow for."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture(autouse=True)
def _nothing_held():
    """Each test has a pool of its own, for others' sources may live on lazy, and ends without an anchor."""
    own = anchors.AnchorPool()
    with pytest.MonkeyPatch.context() as patch:
        for module in (anchors, lazy, sys.modules[__name__]):
            patch.setattr(module, "pool", own)
        yield
        gc.collect()
        assert wait_for(lambda: anchors.settle() == 0)
        own.close()


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is told to go on."""
    clock = types.SimpleNamespace(now=time.monotonic())
    clock.monotonic, clock.thread_time = lambda: clock.now, time.thread_time
    for module in (anchor_pool, anchor_table):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def no_thread(monkeypatch):
    """Nobody sweeps but the test."""
    assert wait_for(lambda: pool._thread is None)
    monkeypatch.setattr(pool, "_thread", object())


# --- how long an anchor is held --------------------------------------------------------------------------------


def test_the_bytes_go_by_themselves_when_both_were_written():
    source = torch.arange(1000.0)
    clone = lazy_clone(source)
    old = StorageWeakRef(pool.table.anchors[private.storage_address(source)].untyped_storage())
    source.add_(1)
    assert len(pool) == 1
    clone.add_(2)
    assert wait_for(old.expired)
    assert (source[0].item(), clone[0].item()) == (1, 2)


def test_settling_frees_them_at_once(no_thread):
    source = torch.arange(1000.0)
    clone = lazy_clone(source)
    assert anchors.settle() == 1
    source.add_(1)
    assert (anchors.held_bytes(), anchors.settle()) == (0, 1)
    clone.add_(1)
    assert anchors.held_bytes() == 4000
    assert anchors.report().to_dict() == {"anchors": 1, "held_bytes": 4000}
    assert anchors.settle() == 0
    assert anchors.report() == anchors.AnchorReport(anchors=0, held_bytes=0)


@pytest.mark.parametrize("dropped", ["source", "clone"])
def test_the_anchor_stays_with_the_one_that_is_left(dropped, no_thread, clock):
    sides = {"source": torch.arange(3.0)}
    sides["clone"] = lazy_clone(sides["source"])
    del sides[dropped]
    (left,) = sides.values()
    clock.now += 1
    assert anchors.settle() == 1
    assert private.is_lazy(left)
    left.add_(1)
    anchors.settle()  # may be the first to see that the other one is gone
    clock.now += 1
    assert anchors.settle() == 0
    assert left.tolist() == [1, 2, 3]


def test_both_dropped():
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    del source, clone
    assert wait_for(lambda: len(pool) == 0)


def test_a_storage_that_died_may_still_be_giving_up(no_thread, clock):
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    source.add_(1)
    del clone
    assert anchors.settle() == 1
    assert anchors.held_bytes() == 12
    clock.now += 0.9 * anchor_table._GRACE_S
    assert anchors.settle() == 1
    clock.now += 0.2 * anchor_table._GRACE_S
    assert anchors.settle() == 0


def test_an_alias_keeps_the_anchor_after_the_tensor_got_other_data(no_thread, clock):
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    alias = source.detach()
    source.data = torch.zeros(3)
    clone.add_(1)
    clock.now += 1
    assert anchors.settle() == 1
    assert private.is_lazy(alias)
    alias.add_(5)
    assert anchors.settle() == 0
    assert (source.tolist(), clone.tolist(), alias.tolist()) == ([0, 0, 0], [1, 2, 3], [5, 6, 7])


def test_a_source_forked_anew_does_not_keep_its_old_bytes(no_thread, clock):
    source = torch.arange(3.0)
    kept = []
    for step in range(5):
        old, kept = kept, lazy_clones([source])[0]
        source.add_(1)
        assert private.storage_address(kept[0]) in pool.table.anchors
        del old
        clock.now += 1
        anchors.settle()
        clock.now += 1
        assert anchors.settle() <= 2
        assert kept[0].tolist() == [step, step + 1, step + 2]
    again = lazy_clone(source)
    kept[0].zero_()
    anchors.settle()  # sees the source lazy at another address: for all it knows, it was resized
    clock.now += 1
    assert anchors.settle() == 1
    assert again.tolist() == source.tolist() == [5, 6, 7]


def test_a_resized_storage_has_given_up(no_thread, clock):
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    clone.untyped_storage().resize_(64)
    source.add_(1)
    assert anchors.settle() == 0
    assert clone.tolist() == [0, 1, 2]
    assert source.tolist() == [1, 2, 3]


def test_forks_of_one_source_share_one_anchor(no_thread):
    source = torch.arange(3.0)
    forks = [lazy_clone(source) for _ in range(3)]
    forks.append(lazy_clone(forks[0]))
    assert len(pool) == 1
    (fresh, again) = lazy_clones([torch.zeros(3), source])[0]
    assert len(pool) == 2
    everyone = [source, again, *forks]
    for number, t in enumerate(everyone):
        assert anchors.settle() == 2 if number == 0 else anchors.settle() >= 1
        t.fill_(number)
    fresh.add_(1)
    assert [t[0].item() for t in everyone] == [0, 1, 2, 3, 4, 5]
    assert fresh.tolist() == [1, 1, 1]


def test_a_fork_that_was_written_dies_when_it_is_dropped():
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    clone.add_(1)
    anchors.settle()
    reference = StorageWeakRef(clone.untyped_storage())
    del clone
    assert reference.expired()
    source.add_(1)
    assert source.tolist() == [1, 2, 3]


def test_dead_forks_are_forgotten_while_another_lives(no_thread, clock):
    source = torch.arange(3.0)
    keep = lazy_clone(source)
    for _ in range(100):
        lazy_clone(source)
    assert anchors.settle() == 1
    assert sorted(pool.table.watched) == sorted(private.storage_ids([source, keep]))
    source.add_(1)
    keep.add_(2)
    clock.now += 1
    assert anchors.settle() == 0
    assert (source.tolist(), keep.tolist()) == ([1, 2, 3], [2, 3, 4])


def test_each_weak_reference_is_freed_once(monkeypatch):
    made, freed = collections.Counter(), collections.Counter()
    weak_storages, free_weak_storages = private.weak_storages, private.free_weak_storages

    def make(tensors):
        weak = weak_storages(tensors)
        made.update(weak)
        return weak

    def free(weak):
        weak = list(weak)
        freed.update(weak)
        free_weak_storages(weak)

    monkeypatch.setattr(private, "weak_storages", make)
    monkeypatch.setattr(private, "free_weak_storages", free)
    sources = [torch.full((3,), float(i)) for i in range(20)]
    for _ in range(10):
        first, second = lazy_clones(sources, 2)
        lazy_clones(first[:5])
        for t in (*sources[:10], *first[5:], *second[::2]):
            t.add_(1)
    del sources, first, second, t
    assert wait_for(lambda: len(pool) == 0)
    assert freed == made
    assert sum(made.values()) > 400


def test_what_may_not_be_looked_at_keeps_its_anchor(no_thread, monkeypatch):
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    clone.add_(1)
    source.add_(2)

    def look(weak):
        raise RuntimeError("device in trouble")

    with monkeypatch.context() as patch:
        patch.setattr(pool.table._probe, "look", look)
        assert anchors.settle() == 1
    assert anchors.settle() == 0
    assert (source.tolist(), clone.tolist()) == ([2, 3, 4], [1, 2, 3])


# --- let_go ----------------------------------------------------------------------------------------------------


def test_without_an_anchor_a_tensor_that_is_left_keeps_its_bytes(no_thread):
    sources = [torch.arange(3.0), torch.arange(4.0), torch.arange(5.0)]
    addresses = private.storage_addresses(sources)
    first, second, _ = lazy_clones(sources)[0]
    del _
    first.add_(1)
    assert anchors.let_go(sources) == 2
    assert list(pool.table.anchors) == [addresses[1]]
    for t in sources:
        t.add_(5)
    assert private.storage_addresses(sources)[::2] == addresses[::2]
    assert (first.tolist(), second.tolist()) == ([1, 2, 3], [0, 1, 2, 3])
    assert anchors.let_go([second, torch.ones(1)]) == 1
    second.add_(1)
    assert private.storage_address(second) == addresses[1]
    assert [t[0].item() for t in sources] == [5, 5, 5]


def test_with_one_its_bytes_move(no_thread):
    source = torch.arange(3.0)
    address = private.storage_address(source)
    lazy_clone(source)
    source.add_(1)
    assert private.storage_address(source) != address
    assert source.tolist() == [1, 2, 3]


def test_bytes_that_two_of_the_tensors_share_stay_anchored(no_thread):
    source = torch.arange(3.0)
    clone = lazy_clone(source)
    assert anchors.let_go([source, clone]) == 0
    assert len(pool) == 1
    clone.add_(1)
    assert anchors.let_go([source, clone]) == 1
    source.add_(2)
    assert (source.tolist(), clone.tolist()) == ([2, 3, 4], [1, 2, 3])


def test_a_tensor_let_go_can_be_forked_again():
    source = torch.arange(3.0)
    lazy_clone(source)
    assert anchors.let_go([source]) == 1
    clone = lazy_clone(source)
    assert len(pool) == 1
    source.add_(1)
    clone.add_(2)
    assert (source.tolist(), clone.tolist()) == ([1, 2, 3], [2, 3, 4])


# --- who sweeps ------------------------------------------------------------------------------------------------


def test_the_thread_ends_when_there_is_nothing_to_do_and_comes_back():
    for _ in range(2):
        source = torch.arange(3.0)
        clone = lazy_clone(source)
        thread = pool._thread
        assert thread.daemon
        assert thread.is_alive()
        source.add_(1)
        clone.add_(1)
        del source, clone
        assert wait_for(lambda thread=thread: not thread.is_alive())
        assert pool._thread is None


def test_where_no_thread_can_be_had_forks_are_made_all_the_same(monkeypatch):
    assert wait_for(lambda: pool._thread is None)

    def start(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        source = torch.arange(3.0)
        clone = lazy_clone(source)
    assert pool._thread is None
    source.add_(1)
    clone.add_(5)
    assert (source.tolist(), clone.tolist()) == ([1, 2, 3], [5, 6, 7])
    assert anchors.settle() == 0


def test_forks_sweep_when_the_thread_does_not_get_to(no_thread, monkeypatch):
    monkeypatch.setattr(anchor_table, "_GRACE_S", 0.0)
    monkeypatch.setattr(anchor_pool, "_SWEEP_AT", 20)
    monkeypatch.setattr(pool, "_sweep_at", 20)
    most = 0
    for _ in range(100):
        source = torch.zeros(3)
        lazy_clone(source)
        most = max(most, len(pool))
    assert 10 < most <= 20
    source.add_(1)


def test_forks_wake_the_thread_when_there_are_many(monkeypatch):
    assert wait_for(lambda: pool._thread is None)
    monkeypatch.setattr(anchor_table, "_GRACE_S", 0.0)
    monkeypatch.setattr(anchor_pool, "_WAKE_AT", 20)
    monkeypatch.setattr(pool, "_wake_at", 20)
    monkeypatch.setattr(pool, "sweep", lambda stop=None: None)  # what it would do by itself
    source = torch.zeros(3)
    clone = lazy_clone(source)
    for _ in range(18):
        lazy_clone(torch.zeros(3))
    time.sleep(0.1)
    assert len(pool) == 19
    lazy_clone(torch.zeros(3))
    assert wait_for(lambda: len(pool) <= 2)  # the thread may look before the last fork is dropped
    assert private.storage_address(source) in pool.table.anchors
    source.add_(1)
    clone.add_(2)
    assert (source.tolist(), clone.tolist()) == ([1, 1, 1], [2, 2, 2])


def test_a_sweep_in_several_steps(no_thread, monkeypatch):
    monkeypatch.setattr(anchor_pool, "_AT_ONCE", 2)
    monkeypatch.setattr(anchor_table, "_FREED_AT_ONCE", 2)
    sources = [torch.zeros(3) for _ in range(7)]
    (clones,) = lazy_clones(sources)
    for t in (*sources, *clones[:-1]):
        t.add_(1)
    assert anchors.settle() == 1
    assert clones[-1].tolist() == [0, 0, 0]
    clones[-1].add_(2)
    assert anchors.settle() == 0
    assert sources[-1].tolist() == [1, 1, 1]


class Forks:
    """Forks, settles and lets go when the garbage collector finds it."""

    collected = 0

    def __init__(self):
        self.me = self

    def __del__(self):
        source = torch.arange(3.0)
        clone = lazy_clone(source)
        anchors.settle(), anchors.report(), anchors.let_go([source])
        clone.add_(1)
        Forks.collected += source.tolist() == [0, 1, 2]


def test_a_finaliser_may_fork_while_its_thread_forks_or_sweeps():
    threshold = gc.get_threshold()
    Forks.collected = 0
    gc.set_threshold(1)
    try:
        for number in range(30):
            Forks()
            sources = [torch.full((3,), float(number)) for _ in range(10)]
            (clones,) = lazy_clones(sources)
            anchors.settle()
            for t in clones:
                t.zero_()
            assert all(t.tolist() == [number] * 3 for t in sources)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert Forks.collected == 30


@pytest.fixture
def disturb(monkeypatch):
    """Has the next call of a private function run what a finaliser might run, should the collector start there."""

    def disturb(function, finaliser):
        real, waiting = getattr(private, function), [finaliser]

        def disturbed(*args):
            if waiting:
                waiting.pop()()
            return real(*args)

        monkeypatch.setattr(private, function, disturbed)
        return waiting

    return disturb


@pytest.fixture
def disturb_letting_go(monkeypatch):
    """The same, in the midst of the anchors that are let go together."""

    def disturb_letting_go(finaliser):
        waiting = [finaliser]

        class Disturbed(dict):
            def pop(self, *args):
                popped = super().pop(*args)
                if waiting:
                    waiting.pop()()
                return popped

        monkeypatch.setattr(pool.table, "anchors", Disturbed(pool.table.anchors))
        return waiting

    return disturb_letting_go


def _settle_and_report(*tensors):
    anchors.settle(), anchors.report(), anchors.let_go(tensors)


def test_a_finaliser_that_settles_while_anchors_go(no_thread, disturb_letting_go):
    """It once let go of what the sweep around it was about to let go: a `KeyError` ended the thread."""
    sources = [torch.full((3,), float(i)) for i in range(4)]
    (clones,) = lazy_clones(sources)
    for t in (*sources, *clones):
        t.add_(1)
    waiting = disturb_letting_go(_settle_and_report)
    assert anchors.settle() == 0
    assert not waiting
    assert [t[0].item() for t in (*sources, *clones)] == [1, 2, 3, 4] * 2


@pytest.mark.parametrize("moment", ["weak references are freed", "anchors are let go", "the dead are sought"])
def test_a_finaliser_that_forks_while_anchors_go(no_thread, disturb, disturb_letting_go, monkeypatch, moment):
    """Its fork may get the very address that has just come free, and its anchor has to stay."""
    monkeypatch.setattr(anchor_pool, "_SWEEP_AT", 1)
    monkeypatch.setattr(pool, "_sweep_at", 1)
    forks = []

    def fork():
        for _ in range(20):
            source = torch.arange(3.0)
            forks.append((source, lazy_clone(source)))

    sources = [torch.zeros(3) for _ in range(20)]
    (clones,) = lazy_clones(sources)
    for t in (*sources, *clones):
        t.add_(1)
    if moment == "anchors are let go":
        waiting = disturb_letting_go(fork)
    else:
        waiting = disturb("free_weak_storages" if "weak" in moment else "expired_storages", fork)
    anchors.settle()
    assert not waiting
    assert anchors.settle() == 20
    for source, clone in forks:
        assert private.storage_address(source) in pool.table.anchors
        source.add_(1)
        assert clone.tolist() == [0, 1, 2]
        clone.add_(5)
        assert source.tolist() == [1, 2, 3]


def test_a_finaliser_that_lets_go_while_its_thread_forks(no_thread, disturb):
    """The fork has found the source's anchor, and counts on it."""
    source = torch.arange(3.0)
    lazy_clone(source)
    waiting = disturb("strict_lazy_clones", lambda: _settle_and_report(source))
    clone = lazy_clone(source)
    assert not waiting
    assert list(pool.table.anchors) == [private.storage_address(source)]
    source.add_(1)
    clone.add_(5)
    assert (source.tolist(), clone.tolist()) == ([1, 2, 3], [5, 6, 7])


def test_a_thread_that_died_is_replaced(monkeypatch):
    assert wait_for(lambda: pool._thread is None)

    def trip(stop=None):
        raise MemoryError("not even for this")

    with monkeypatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda args: None)
        patch.setattr(pool, "sweep", trip)
        source = torch.arange(3.0)
        clone = lazy_clone(source)
        assert wait_for(lambda: pool._thread is None)
    again = lazy_clone(source)
    assert pool._thread.is_alive()
    source.add_(1)
    clone.add_(2)
    again.add_(3)
    assert wait_for(lambda: len(pool) == 0)
    assert (source.tolist(), clone.tolist(), again.tolist()) == ([1, 2, 3], [2, 3, 4], [3, 4, 5])


def test_where_nothing_can_be_lazy_no_thread_is_started():
    assert wait_for(lambda: pool._thread is None)
    assert lazy_clones([torch.empty(0)]) == [[None]]
    assert pool._thread is None


# --- processes -------------------------------------------------------------------------------------------------


def _assert_prints(code, expected):
    """Runs `code` in an interpreter of its own, which says this and nothing else, and ends well."""
    command = [sys.executable, "-W", "ignore", "-c", SETUP + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


SETUP = """
import faulthandler, os, sys, threading, time
import torch
from torchcopy import _torch_private as private
from torchcopy.copying.copy_on_write import anchors
from torchcopy.copying.copy_on_write.lazy import lazy_clones
torch.set_num_threads(1)
"""


def test_import_starts_no_thread():
    _assert_prints("print([thread.name for thread in threading.enumerate()])", "['MainThread']\n")


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "del source", "source.add_(1); clone.add_(1)"])
def test_the_interpreter_ends_quietly_with_anchors_held(end):
    code = f"""
source = torch.arange(1000.0)
((clone,),) = lazy_clones([source])
class AtEnd:
    def __del__(self):
        lazy_clones([torch.ones(3)])
at_end = AtEnd()
{end}
"""
    _assert_prints(code, "")


FORKED_BY_A_FINALISER = """
real, children = private.free_weak_storages, []
def fork(weak):  # what a finaliser might do, should the collector start here
    if not children:
        children.append(os.fork())
    real(weak)

sources = [torch.zeros(3) for _ in range(4)]
(clones,) = lazy_clones(sources)
for t in (*sources, *clones):
    t.add_(1)
private.free_weak_storages = fork
left = anchors.settle()
((own,),) = lazy_clones([sources[0]])
own.add_(1)
sources[0].add_(5)
assert (left, own[0], sources[0][0]) == (0, 2, 6)
while len(anchors.pool):
    time.sleep(0.01)
if children[0] == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
print("parent and child are well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is what is tested")
def test_a_finaliser_that_forks_the_process_while_anchors_go():
    _assert_prints(FORKED_BY_A_FINALISER, "parent and child are well\n")


FORKING = """
def busy():
    while not stop.is_set():
        mine = torch.arange(100.0)
        ((other,),) = lazy_clones([mine])
        mine.add_(1)
        assert other[1] == 1
        anchors.settle()

source = torch.arange(1000.0)
((clone,),) = lazy_clones([source])
stop = threading.Event()
threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for number in range(30):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)  # a child that hangs says where
        ((other,),) = lazy_clones([source])
        other.add_(1)
        clone.add_(2)
        source.add_(3)
        seen = [other[0].item(), clone[0].item(), source[0].item()]
        mine = torch.zeros(3)
        lazy_clones([mine])
        mine.add_(1)
        deadline = time.monotonic() + 30
        while anchors.settle() and time.monotonic() < deadline:
            time.sleep(0.01)
        os._exit(0 if seen == [1, 2, 3] and len(anchors.pool) == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
assert clone[1] == source[1] == 1
print("parent and children are well")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is what is tested")
def test_a_forked_process_starts_anew():
    _assert_prints(FORKING, "parent and children are well\n")


LOADING = """
class Lazy(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        ((own,),) = lazy_clones([source])
        return own.add_(index) if index % 2 else own

source = torch.arange(4.0)
((clone,),) = lazy_clones([source])
for _ in range(3):
    loader = torch.utils.data.DataLoader(Lazy(), num_workers=2, batch_size=2)
    rows = torch.cat(list(loader))
    assert rows[:, 0].tolist() == [0, 1, 0, 3, 0, 5, 0, 7], rows
clone.add_(1)
source.add_(2)
assert (clone[0], source[0]) == (1, 2)
print("loaded")
"""


def test_workers_of_a_data_loader_make_lazy_clones_of_what_they_inherited():
    _assert_prints(LOADING, "loaded\n")
