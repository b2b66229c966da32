"""The memory of large copies is kept for the next ones, and nobody can tell from their values."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import torchcopy as tc
from torchcopy.copying.tensors import memory_cache
from torchcopy.copying.tensors.memory_cache import SMALLEST_BYTES, MemoryCache

LARGE = SMALLEST_BYTES // 4  # elements of float32


@pytest.fixture
def cache(monkeypatch):
    """A cache of the test's own, in whatever way the machine is set."""
    own = MemoryCache()
    monkeypatch.setattr(memory_cache, "cache", own)
    monkeypatch.setattr("torchcopy.copying.tensors.new_memory.cache", own)
    monkeypatch.setattr("torchcopy.copying.tensors.new_memory.is_in_use", lambda: True)
    yield own
    own.close()


def weights(fill=1.0):
    return {"a": torch.full((LARGE,), fill), "b": torch.full((2, LARGE), fill)}


def addresses(state):
    return {name: t.data_ptr() for name, t in state.items()}


def check_independent(source, copied):
    """Writes to the source and looks at the copy, and the other way round."""
    for name, t in source.items():
        before, other = copied[name].clone(), t.clone()
        t.add_(1)
        assert torch.equal(copied[name], before)
        copied[name].mul_(3)
        assert torch.equal(t, other + 1)
        t.copy_(other)


def test_the_next_copy_gets_the_memory_of_the_last_one(cache):
    source = weights()
    first = tc.copy(source)
    where = addresses(first)
    del first
    second = tc.copy(source)
    assert addresses(second) == where
    check_independent(source, second)
    third = tc.copy(source)  # the second one lives
    assert set(addresses(third).values()).isdisjoint(where.values())
    check_independent(source, third)
    check_independent(third, second)


def test_it_keeps_as_much_as_the_largest_of_the_last_copies(cache):
    source = weights()
    many = [tc.copy(source) for _ in range(5)]
    many.clear()
    size = sum(t.nbytes for t in source.values())
    assert cache.empty() == 5 * size - 4 * size  # four were freed as they came back
    small = {"c": torch.ones(LARGE)}
    kept = tc.copy(source)
    del kept
    for _ in range(memory_cache._REMEMBERED):
        copied = tc.copy(small)
        assert torch.equal(copied["c"], small["c"])
        del copied
    assert cache.empty() == small["c"].nbytes  # the large one is forgotten


def test_other_shapes_and_dtypes_of_the_same_size_get_it_too(cache):
    source = torch.arange(float(LARGE))
    first = tc.copy({"t": source})
    where = first["t"].data_ptr()
    del first
    for other in (
        source.view(4, -1).t(),
        source.view(2, 2, 2, -1).to(memory_format=torch.channels_last),
        source.view(torch.int32),
        source[::2].to(torch.complex64),
        nn.Parameter(source.clone()),
    ):
        copied = tc.copy({"t": other})["t"]
        assert copied.data_ptr() == where
        assert (copied.dtype, copied.shape, copied.stride()) == (other.dtype, other.shape, other.stride())
        assert type(copied) is type(other)
        assert copied.requires_grad == other.requires_grad
        assert torch.equal(copied, other)
        check_independent({"t": other.data}, {"t": copied.data})
        assert copied.untyped_storage().nbytes() == other.nbytes
        del copied


def holds_a_view(t):
    return t[3:]


def holds_an_array(t):
    return t.numpy()


def holds_a_graph(t):
    return (t.clone().requires_grad_() * t).sum()


def holds_the_storage(t):
    return t.untyped_storage()


def holds_an_alias_of_the_class(t):
    return nn.Parameter(t)


@pytest.mark.parametrize(
    "hold",
    [holds_a_view, holds_an_array, holds_a_graph, holds_the_storage, holds_an_alias_of_the_class],
    ids=lambda f: f.__name__,
)
def test_what_somebody_still_has_is_not_given_away(cache, hold):
    source = weights(2.0)
    copied = tc.copy(source)
    held = {name: hold(t) for name, t in copied.items()}
    where = addresses(copied)
    del copied
    again = tc.copy(weights(5.0))
    assert set(addresses(again).values()).isdisjoint(where.values())
    for each in held.values():
        if isinstance(each, torch.UntypedStorage):
            assert torch.equal(torch.empty(0).set_(each).unique(), torch.tensor([2.0]))
        elif each.ndim == 0:
            each.backward()
        else:
            assert ((each.data if isinstance(each, nn.Parameter) else each) == 2).all()
    del held, each
    gc.collect()
    third = tc.copy(source)
    if hold is not holds_an_array:  # no storage that NumPy had is kept: it can never be resized
        assert addresses(third) == where
    check_independent(source, third)


def to_float64(copied):
    copied["a"].data, copied["b"].data = copied["a"].double(), copied["b"].double()


def to_another_storage(copied):
    copied["a"].set_(torch.ones(1))
    copied["b"].set_(torch.ones(1))


def to_one_another(copied):
    torch.utils.swap_tensors(copied["a"], torch.ones(1))
    torch.utils.swap_tensors(copied["b"], torch.ones(1))


@pytest.mark.parametrize("move", [to_float64, to_another_storage, to_one_another], ids=lambda f: f.__name__)
def test_memory_that_a_living_tensor_has_left_comes_back(cache, move):
    source = weights(2.0)
    copied = tc.copy(source)
    where = addresses(copied)
    move(copied)
    again = tc.copy(source)
    assert addresses(again) == where
    check_independent(source, again)
    check_independent({"a": copied["a"].clone()}, {"a": copied["a"]})


def test_a_copied_module_can_be_converted_by_swapping(cache, monkeypatch):
    monkeypatch.setattr(torch.__future__, "_swap_module_params_on_conversion", True)
    module = nn.Linear(256, 256)
    copied = tc.copy(module)
    weight = copied.weight
    copied.double()
    assert copied.weight is weight
    assert torch.equal(weight, module.weight.double())
    check_independent({"w": module.weight.data}, {"w": tc.copy(module).weight.data})


def test_a_storage_that_somebody_watches_dies(cache):
    copied = tc.copy({"t": torch.ones(LARGE)})["t"]
    watched, told = weakref.ref(copied.untyped_storage()), []
    weakref.finalize(copied.untyped_storage(), told.append, "gone")
    del copied
    again = tc.copy({"t": torch.ones(LARGE)})["t"]
    assert watched() is not again.untyped_storage()
    assert (watched(), told) == (None, ["gone"])


def test_what_is_forked_and_dropped_while_the_cache_looks_at_it_is_not_kept(cache, monkeypatch):
    """Another thread may do so between any two steps; to mark the bytes as free would destroy the fork."""
    views, forks = [tc.copy({"t": torch.full((LARGE,), 2.0)})["t"].data], []
    original = memory_cache._torch_private.are_lazy

    def are_lazy(tensors):
        found = original(tensors)
        forks.extend(map(tc.fork, views))
        views.clear()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(memory_cache._torch_private, "are_lazy", are_lazy)
        assert cache.empty() == 0
    assert all((t == 2).all() for t in views + forks)
    views.clear()
    assert cache.empty() == (0 if forks else 4 * LARGE)


def test_ctrl_c_in_the_midst_of_it_leaves_a_cache_that_works(cache):
    source, interrupted = weights(2.0), 0
    size = sum(t.nbytes for t in source.values())
    for moment in range(10_000):
        left = moment

        def interrupt(frame, event, arg):
            """Where the interpreter looks for signals: when a function starts, or one of C has ended."""
            nonlocal left
            if event in ("call", "c_return") and frame.f_code.co_filename == memory_cache.__file__:
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt

        tc.copy(source)  # comes back in the next one
        sys.setprofile(interrupt)
        try:
            copied = tc.copy(source)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.setprofile(None)
        assert cache._idle_bytes == sum(block.size_bytes for block in cache._in_order), moment
        copied = tc.copy(source)
        check_independent(source, copied)
        del copied
        assert cache.empty() in (size, 2 * size), moment
        if left >= 0:
            break
    assert 20 < interrupted == moment


def test_sizes_that_were_copied_once_leave_nothing_behind(cache):
    for more in range(50):
        copied = tc.copy({"t": torch.ones(LARGE + more)})
        assert copied["t"].sum() == LARGE + more
        del copied
    assert len(cache._idle) == 1
    assert len(cache._in_order) == 1


def test_however_many_copies_live_a_copy_looks_at_few(cache, monkeypatch):
    source = {"t": torch.ones(LARGE)}
    many = [tc.copy(source) for _ in range(200)]
    looked_at, own = [], threading.get_ident()
    original = memory_cache._users

    def users(blocks):
        if threading.get_ident() == own:  # the thread looks at all, now and then
            looked_at.append(len(blocks))
        return original(blocks)

    monkeypatch.setattr(memory_cache, "_users", users)
    where = set()
    for _ in range(10):
        copied = tc.copy(source)
        where.add(copied["t"].data_ptr())
        assert torch.equal(copied["t"], source["t"])
    assert len(where) == 2  # the one before lives until it is replaced
    assert max(looked_at) <= 2 * (memory_cache._LOOKS + 1)
    gone = len({t["t"].data_ptr() for t in many})
    many.clear()
    assert gone == 200
    for _ in range(200):  # all of them are looked at in the end
        copied = tc.copy(source)
    assert cache._number_lent() < 5


def test_a_mark_on_the_storage_is_not_handed_on(cache):
    copied = tc.copy({"t": torch.ones(LARGE)})
    copied["t"].untyped_storage().mark = "mine"
    del copied
    again = tc.copy({"t": torch.ones(LARGE)})
    assert not hasattr(again["t"].untyped_storage(), "mark")


def test_a_fork_of_a_copy_keeps_its_bytes(cache):
    source = weights(2.0)
    copied = tc.copy(source)
    forked = tc.fork(copied)
    where = addresses_without_copying(forked)
    del copied
    again = tc.copy(weights(7.0))
    assert set(addresses(again).values()).isdisjoint(where.values())
    assert all((t == 2).all() for t in forked.values())
    check_independent(again, forked)


def addresses_without_copying(state):
    return {name: torch._C._data_address(t) for name, t in state.items()}


def test_memory_that_was_resized_or_shared_is_not_kept(cache):
    resized, shared = tc.copy({"t": torch.ones(LARGE)})["t"], tc.copy({"t": torch.ones(LARGE)})["t"]
    resized.untyped_storage().resize_(8)
    shared.share_memory_()
    del resized
    del shared
    assert cache.empty() == 0


def test_the_next_copy_can_be_resized_though_numpy_had_the_last_one(cache):
    source = weights()
    copied = tc.copy(source)
    assert (copied["a"].numpy() == 1).all()
    del copied
    again = tc.copy(source)
    again["a"].resize_(2 * LARGE)
    again["a"].zero_()
    assert torch.equal(source["a"], torch.ones(LARGE))
    check_independent({"b": source["b"]}, {"b": again["b"]})


def test_small_copies_and_those_of_other_layouts_do_not_go_through_it(cache):
    things = {
        "small": torch.ones(LARGE - 1),
        "with gaps": torch.ones(LARGE, 2)[:, 0],
        "meta": torch.ones(LARGE, device="meta"),
        "sparse": torch.eye(300).to_sparse(),
    }
    for name, t in things.items():
        copied = tc.copy({name: t})
        assert copied[name].layout == t.layout, name
        del copied
        assert cache.empty() == 0, name


@pytest.mark.parametrize(
    "somewhere",
    [
        torch.inference_mode,
        lambda: torch.autograd.profiler.profile(use_kineto=True, profile_memory=True),
        lambda: FlopCounterMode(display=False),
    ],
    ids=["inference mode", "the profiler", "a dispatch mode"],
)
def test_none_is_kept_where_somebody_looks(monkeypatch, somewhere):
    own = MemoryCache()
    monkeypatch.setattr(memory_cache, "_is_possible", lambda: True)
    monkeypatch.setattr("torchcopy.copying.tensors.new_memory.cache", own)
    source = weights()
    assert memory_cache.is_in_use()
    with somewhere():
        assert not memory_cache.is_in_use()
        copied = tc.copy(source)
        assert copied["a"].is_inference() == torch.is_inference_mode_enabled()
    assert torch.equal(copied["a"], source["a"])
    del copied
    assert own.empty() == 0
    own.close()


def test_a_failed_copy_leaves_the_cache_as_it_can_be_used(cache, monkeypatch):
    source = weights()
    where = addresses(tc.copy(source))
    from torchcopy import _torch_private

    def fails(*args, **kwargs):
        raise RuntimeError("no")

    with monkeypatch.context() as patched:
        patched.setattr(_torch_private, "foreach_copy_", fails)
        with pytest.raises(RuntimeError, match="no"):
            tc.copy(source)
    copied = tc.copy(source)
    assert len(where) == 2
    assert torch.equal(copied["b"], source["b"])
    check_independent(source, copied)


def test_a_finaliser_in_the_midst_of_it_may_copy(cache, monkeypatch):
    source, made = weights(), []
    original = MemoryCache._take_one

    def take_one(self, t):
        if not made:
            made.append(None)
            made.append(tc.copy(source))  # as a finaliser does that the garbage collector runs here
        return original(self, t)

    del (first := {"x": tc.copy(source)})["x"]
    monkeypatch.setattr(MemoryCache, "_take_one", take_one)
    copied = tc.copy(source)
    check_independent(copied, made[1])
    check_independent(source, copied)
    assert first == {}


def test_idle_memory_is_offered_to_the_system_and_can_be_used_afterwards(cache, monkeypatch):
    offered, told = [], threading.Event()

    def advise(address, size, advice):
        offered.append((address, size, advice))
        told.set()
        return 0

    monkeypatch.setattr(memory_cache, "madvise", lambda: advise)
    monkeypatch.setattr(memory_cache, "_GRACE_S", 0.0)
    source = {"a": torch.ones(16 * LARGE)}
    copied = tc.copy(source)
    where, size = copied["a"].data_ptr(), copied["a"].nbytes
    assert offered == []
    del copied
    assert told.wait(60)
    address, length, advice = offered[0]
    assert where <= address < where + 65536
    assert where + size - 65536 < address + length <= where + size
    assert advice == memory_cache.NO_MORE_NEEDED
    while not cache._in_order:  # it is being put back
        time.sleep(0.001)
    again = tc.copy(source)
    assert again["a"].data_ptr() == where
    check_independent(source, again)


def test_the_thread_ends_when_there_is_nothing_to_do(cache, monkeypatch):
    monkeypatch.setattr(memory_cache, "_GRACE_S", 0.0)
    monkeypatch.setattr(memory_cache, "_SOONEST_S", 0.01)
    monkeypatch.setattr(memory_cache, "_LATEST_S", 0.01)
    source = weights()
    copied = tc.copy(source)
    thread = cache._thread
    assert thread.is_alive()
    where = addresses(copied)
    del copied
    thread.join(60)
    assert not thread.is_alive()
    assert cache._thread is None
    assert addresses(tc.copy(source)) == where


def test_threads_copy_at_the_same_time(cache):
    source = weights(3.0)
    wrong = []

    def work(value):
        mine = {name: torch.full_like(t, value) for name, t in source.items()}
        for _ in range(60):
            copied = tc.copy(mine)
            if not all((t == value).all() for t in copied.values()):
                wrong.append(value)
            for t in copied.values():
                t.zero_()

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_goes_on(cache):
    source = weights(2.0)
    copied = tc.copy(source)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)  # OpenMP's other threads are not in a forked process
            mine = tc.copy(source)
            mine["a"].zero_()
            code = 0 if (copied["a"] == 2).all() and (tc.copy(source)["a"] == 2).all() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check_independent(source, copied)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


COUNTS = """
import torch, torchcopy as tc
copied = tc.copy({"w": torch.ones(1_000_000)})
del copied
print(tc.empty_cache(), tc.empty_cache())
"""


@pytest.mark.skipif(not memory_cache._is_possible(), reason="nothing is kept on this system")
@pytest.mark.parametrize(("setting", "kept"), [("", 4_000_000), ("0", 4_000_000), ("1", 0)])
def test_it_can_be_switched_off(setting, kept):
    assert run(COUNTS, TORCHCOPY_NO_MEMORY_CACHING=setting).stdout.split() == [str(kept), "0"]


def test_a_program_ends_with_copies_alive_and_idle():
    done = run(
        "import torch, torchcopy as tc\ns = {'w': torch.ones(1_000_000)}\na, b = tc.copy(s), tc.copy(s)\ndel b"
    )
    assert (done.stdout, done.stderr) == ("", "")


SCARCE = """
import resource, torch, torchcopy as tc
copied = tc.copy({"w": torch.ones(100_000_000)})
source = {"w": torch.ones(120_000_000)}
del copied
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, used + 200_000_000))
copied = tc.copy(source)
source["w"].zero_()
print(copied["w"].min().item(), tc.empty_cache())
"""


@pytest.mark.skipif(not memory_cache._is_possible(), reason="nothing is kept on this system")
def test_where_memory_is_short_none_lies_idle():
    assert run(SCARCE).stdout.split() == ["1.0", "0"]


ENDS_IN_A_CHILD = """
import os, torch, torchcopy as tc
from torchcopy.copying.tensors.memory_cache import cache
source = {"w": torch.ones(20_000)}
copied = tc.copy(source)
lock = cache._closing._cond
lock.acquire()  # as the thread has it for a moment, each time it looks
child = os.fork()
if child:
    lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print("ended")
else:
    assert tc.copy(source)["w"].sum() == 20_000
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_ends_though_the_thread_was_just_looking():
    assert run(ENDS_IN_A_CHILD).stdout.split() == ["ended"]
