"""Background snapshots among threads and processes: errors arrive, nothing hangs, nothing is lost."""

import gc
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn, optim

import torchcopy as tc
from bitwise import bits, differences
from torchcopy.history.taking import background
from training_runs import Run, everyday_model, seed_everything

pytestmark = pytest.mark.usefixtures("one_thread")
PATIENCE = 60


def new_run():
    seed_everything()
    return Run(everyday_model(), lambda p: optim.AdamW(p, lr=0.01, fused=True))


class Gate:
    """Holds the staging thread up until it is opened, and may have it fail then."""

    def __init__(self, monkeypatch):
        self.opened, self.error, self.calls = threading.Event(), None, 0
        self._move = background.StagingJob._move
        monkeypatch.setattr(background.StagingJob, "_move", lambda job: self.passed_by(job))

    def passed_by(self, job):
        self.calls += 1
        assert self.opened.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        self._move(job)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate(monkeypatch)
    yield gate
    gate.opened.set()
    for thread in threading.enumerate():
        if thread.name == "torchcopy-staging":
            thread.join(PATIENCE)
    background.stager.let_go()


def test_the_run_goes_on_while_the_bytes_are_on_their_way(gate):
    run = new_run()
    history = tc.History(**run.parts, mode="background", keep=None)
    wanted, taken = [], []
    for _ in range(3):
        wanted.append(bits([run.model.state_dict(), run.optimizer.state_dict()]))
        taken.append(history.take())
        assert not taken[-1].ready
        run.train(2)
    assert {t.how for t in taken[0].report.tensors if t.path.startswith("model")} <= {"on its way", "copied"}
    assert any(t.how == "on its way" for t in taken[0].report.tensors)
    gate.opened.set()
    history.wait()
    for snapshot, each in zip(taken, wanted, strict=True):
        assert snapshot.ready
        assert differences(bits([snapshot.state_dict("model"), snapshot.state_dict("optimizer")]), each) == []
        assert {t.how for t in snapshot.report.tensors} == {"copied"}


def test_what_is_asked_of_a_snapshot_waits_for_its_bytes(gate):
    run = new_run()
    wanted = bits(run.model.state_dict())
    snapshot = tc.History(**run.parts, mode="background").take()
    run.train(1)
    threading.Timer(0.05, gate.opened.set).start()
    assert differences(bits(snapshot.state_dict("model")), wanted) == []
    assert snapshot.ready
    run.train(1)
    snapshot.restore()
    assert differences(bits(run.model.state_dict()), wanted) == []


@pytest.mark.parametrize("ask", ["take", "wait", "history.wait", "state_dict", "restore", "build"])
def test_an_error_in_the_thread_reaches_who_asks(gate, ask):
    """It has its cause; the other snapshots are whole, and the run is as it was."""
    run = new_run()
    history = tc.History(**run.parts, mode="background")
    gate.opened.set()
    good, wanted = history.take().wait(), bits(run.model.state_dict())
    gate.error = MemoryError("nothing left")
    bad = history.take()
    threading.Event().wait(0)
    while not bad.ready:
        pass
    gate.error = None
    run.train(1)
    here = run.bits()
    calls = {
        "take": history.take,
        "wait": bad.wait,
        "history.wait": history.wait,
        "state_dict": lambda: bad.state_dict("model"),
        "restore": bad.restore,
        "build": lambda: bad.build(model=everyday_model),
    }
    message = r"^the bytes of a snapshot could not be moved: MemoryError: nothing left$"
    with pytest.raises(tc.StagingError, match=message) as raised:
        calls[ask]()
    assert isinstance(raised.value.__cause__, MemoryError)
    assert differences(run.bits(), here) == []
    if ask in ("take", "history.wait"):
        assert list(history) == [good]
        history.wait()
    assert differences(bits(good.state_dict("model")), wanted) == []
    if ask == "take":
        assert differences(bits(history.take().state_dict("model")), bits(run.model.state_dict())) == []
    good.restore()
    assert differences(bits(run.model.state_dict()), wanted) == []


def test_each_error_is_told_though_there_are_several(gate):
    run = new_run()
    history = tc.History(**run.parts, mode="background")
    gate.error = OSError("gone")
    taken = [history.take() for _ in range(3)]
    gate.opened.set()
    for snapshot in taken:
        with pytest.raises(tc.StagingError, match="OSError: gone"):
            snapshot.wait()
    gate.error = None
    for _ in range(3):
        with pytest.raises(tc.StagingError, match="OSError: gone"):
            history.take()
    assert len(history) == 0
    assert history.take().wait().ready
    assert not background.stager._unfinished


def test_snapshots_taken_on_threads_that_end(gate):
    """The lazy clones of a thread that is gone are let go by another."""
    run = new_run()
    history = tc.History(**run.parts, mode="background", keep=None)
    gate.opened.set()
    wanted = []
    for _ in range(20):
        wanted.append(bits(run.model.state_dict()))
        thread = threading.Thread(target=history.take)
        thread.start()
        thread.join()
        run.train(1)
    history.wait()
    background.stager.let_go()
    assert not background.stager._unfinished
    for snapshot, each in zip(history, wanted, strict=True):
        assert differences(bits(snapshot.state_dict("model")), each) == []
        assert {t.how for t in snapshot.report.tensors} == {"copied"}


@pytest.mark.parametrize("mode", ["lazy", "background"])
def test_snapshots_dropped_on_another_thread_while_training(mode):
    run = new_run()
    history = tc.History(**run.parts, mode=mode, keep=1)
    stop, errors, held = threading.Event(), [], []

    def drop():
        try:
            while not stop.is_set():
                if held:
                    cycle = [held.pop()]
                    cycle.append(cycle)
                    del cycle
                    gc.collect(0)
        except BaseException as error:  # noqa: BLE001  # told below
            errors.append(error)

    dropper = threading.Thread(target=drop)
    dropper.start()
    for _ in range(100):
        wanted = bits(run.model.state_dict())
        snapshot = history.take()
        held.append(snapshot)
        run.train(1)
        assert differences(bits(snapshot.state_dict("model")), wanted) == []
        del snapshot
    stop.set()
    dropper.join(PATIENCE)
    assert not errors
    assert not dropper.is_alive()
    history.take()
    history.wait()


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_several_threads_take_and_read_at_once(mode):
    """Each trains its own model, with a history of its own; one more reads all of them."""
    errors = []

    def work(seed):
        try:
            layer = nn.Linear(30, 30)
            optimizer = optim.SGD(layer.parameters(), lr=0.1)
            history = tc.History(layer=layer, optimizer=optimizer, mode=mode, rng=False, keep=3)
            for step in range(60):
                with torch.no_grad():
                    layer.weight.fill_(seed * 1000 + step)
                history.take(step=step)
                with torch.no_grad():
                    layer.weight.fill_(-1)
                for snapshot in history:
                    assert (snapshot.state_dict("layer")["weight"] == seed * 1000 + snapshot.labels["step"]).all()
        except BaseException as error:  # noqa: BLE001  # told below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)


def test_without_another_thread_the_bytes_are_moved_at_once(monkeypatch):
    """Where there can be no more threads, nothing waits for one."""
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "torchcopy-staging":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    run = new_run()
    history = tc.History(**run.parts, mode="background")
    wanted = bits(run.model.state_dict())
    snapshot = history.take()
    assert snapshot.ready
    run.train(1)
    assert differences(bits(snapshot.state_dict("model")), wanted) == []
    monkeypatch.undo()
    assert differences(bits(history.take().wait().state_dict("model")), bits(run.model.state_dict())) == []


# --- processes ---------------------------------------------------------------------------------------------------

HEAD = """
import os, sys, threading, time
import torch
from torch import nn
import torchcopy as tc
from torchcopy.history.taking import background

torch.set_num_threads(1)
model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(8)])
history = tc.History(model=model, mode="background", keep=None, rng=False)
move = background.StagingJob._move

def slowly(job):
    time.sleep(0.1)
    move(job)

def fill(value):
    with torch.no_grad():
        for p in model.parameters():
            p.data.fill_(value)

def check(snapshot, value):
    for t in snapshot.wait().state_dict().values():
        assert (t == value).all(), (t.unique(), value)
"""

PROGRAMS = {
    "exit waits for the bytes": """
background.StagingJob._move = slowly
class Told(background.StagingJob):
    pass
run = background.StagingJob.run
def tell(job):
    run(job)
    print("moved", job.error, flush=True)
background.StagingJob.run = tell
history.take()
history.take()
print("end", flush=True)
""",
    "an error at exit is told": """
def fail(job):
    raise OSError("disk")
background.StagingJob._move = fail
try:
    history.take().wait()
except tc.StagingError:
    print("told", flush=True)
history.clear()
background.StagingJob._move = lambda job: (time.sleep(0.1), fail(job))
history.take()
print("end", flush=True)
""",
    "a forked child waits for the right bytes": """
background.StagingJob._move = slowly
fill(1)
first = history.take()
fill(2)
second = history.take()
fill(3)
time.sleep(0.02)  # the first is being moved, the second waits
child = os.fork()
if child == 0:
    check(second, 2)
    check(first, 1)
    fill(4)
    third = history.take()
    fill(5)
    check(third, 4)
    check(first, 1)
    history.clear()
    print("child", flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
check(first, 1)
check(second, 2)
assert (next(model.parameters()) == 3).all()
print("parent", flush=True)
""",
    "many forks at any moment": """
fill(0)
for k in range(60):
    fill(k)
    snapshot = history.take()
    child = os.fork()
    if child == 0:
        fill(-1)
        check(snapshot, k)
        os._exit(0)
    fill(-2)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    check(snapshot, k)
    if k % 5 == 0:
        history.clear()
print("done", flush=True)
""",
    "loader workers start while bytes are on their way": """
background.StagingJob._move = slowly
class Data(torch.utils.data.Dataset):
    def __init__(self, snapshot):
        self.snapshot = snapshot
    def __len__(self):
        return 8
    def __getitem__(self, k):
        state = self.snapshot.wait().state_dict()
        return torch.stack([t.float().mean() for t in state.values()])
for k in range(2):
    fill(k)
    snapshot = history.take()
    fill(9)
    loader = torch.utils.data.DataLoader(
        Data(snapshot), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=30
    )
    for batch in loader:
        assert (batch == k).all(), batch
        history.take()
    check(snapshot, k)
print("done", flush=True)
""",
}
PRINTED = {
    "exit waits for the bytes": "end\nmoved None\nmoved None\n",
    "an error at exit is told": "told\nend\n",
    "a forked child waits for the right bytes": "child\nparent\n",
    "many forks at any moment": "done\n",
    "loader workers start while bytes are on their way": "done\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_processes(name):
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", HEAD + PROGRAMS[name]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, PRINTED[name]), done.stderr
    untold = "torchcopy: the bytes of a snapshot could not be moved: OSError: disk\n"
    assert done.stderr == (untold if name == "an error at exit is told" else "")


def test_a_background_take_that_cannot_begin_loses_no_snapshot(monkeypatch):
    model = nn.Linear(2, 2)
    history = tc.History(model=model, mode="background", keep=1, rng=False)
    history.take(step=0).wait()
    expected = history[0].state_dict("model")

    def fail(*_):
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(background, "copy_tensors", fail)
        with pytest.raises(MemoryError, match="no more"):
            history.take(step=1)
    assert [snapshot.labels["step"] for snapshot in history] == [0]
    with torch.no_grad():
        model.weight.zero_()
    assert all(torch.equal(t, expected[name]) for name, t in history[0].state_dict("model").items())
    history.take(step=2).wait()
    assert history[0].state_dict("model")["weight"].eq(0).all()
