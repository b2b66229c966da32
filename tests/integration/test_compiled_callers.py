"""`torch.compile` leaves copying alone: inside a compiled function it runs as it does elsewhere."""

import copy
import inspect
import shutil
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch._dynamo import mutation_guard

import torchcopy as tc
from torchcopy.copying.walking.tensor_jobs import TensorJobs

# Inductor builds C++ for the CPU, and is tried where that can be built.
BACKENDS = ["eager", *["inductor"] * (shutil.which("g++") is not None)]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the compiler's own import of `torch.jit`
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),  # it looks at what a broken graph returns
]


@pytest.fixture(params=BACKENDS)
def backend(request):
    torch._dynamo.reset()
    yield request.param
    torch._dynamo.reset()


def compiled(function, backend):
    return torch.compile(function, backend=backend)


def test_a_copy_is_independent_of_what_is_written_later(backend, make):
    def run(x, held):
        doubled = {"y": x * 2, "held": held}
        copied = make(doubled)
        doubled["y"].add_(1)
        held.add_(10)
        copied["held"].mul_(5)
        return doubled["y"] * 1, copied["y"] + 0.5, copied["held"]

    held = torch.ones(3)
    written, kept, its_held = compiled(run, backend)(torch.ones(3), held)
    assert written.tolist() == [3, 3, 3]
    assert kept.tolist() == [2.5, 2.5, 2.5]
    assert its_held.tolist() == [5, 5, 5]
    assert held.tolist() == [11, 11, 11]
    its_held.zero_()
    assert held.tolist() == [11, 11, 11]


def test_many_forks(backend):
    def run(x):
        first, second = tc.fork([x], 2)
        first[0].add_(1)
        return first[0] * 2, second[0] * 2

    x = torch.ones(2)
    first, second = compiled(run, backend)(x)
    x.zero_()
    assert (first.tolist(), second.tolist()) == ([4, 4], [2, 2])


@pytest.mark.parametrize("memory", ["own", "lazy"])
def test_gradients_flow_through_a_copy_that_keeps_the_graph(backend, memory):
    def run(x):
        y = x * 2
        copied = tc.copy({"y": y}, graph="keep", memory=memory)["y"]
        return (copied * copied).sum(), copied

    x = torch.tensor([1.0, 3.0], requires_grad=True)
    total, copied = compiled(run, backend)(x)
    (gradient,) = torch.autograd.grad(total, x)
    assert gradient.tolist() == [8, 24]  # of (2x)²
    with torch.no_grad():
        x.zero_()
        assert copied.tolist() == [2, 6]
        copied.fill_(7)
        assert x.tolist() == [0, 0]


def test_writing_into_what_exists(backend):
    model, average, best = (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)) for _ in range(3))
    tc.copy_(average, model)

    def step(x):
        loss = model(x).square().sum()
        tc.copy_(best, model)
        tc.lerp_(average, model, 0.5)
        return loss * 2

    with torch.no_grad():
        before = average[0].weight.clone()
        model[0].weight.add_(1)
    loss = compiled(step, backend)(torch.randn(4, 2))
    loss.backward()
    assert model[0].weight.grad is not None
    assert torch.allclose(average[0].weight, before + 0.5)
    assert torch.equal(best[0].weight, model[0].weight)
    assert int(best[1].num_batches_tracked) == 1
    with torch.no_grad():
        model[0].weight.zero_()
    assert torch.allclose(best[0].weight, before + 1)
    with torch.no_grad():
        best[0].weight.fill_(9)
    assert not model[0].weight.detach().any()


def test_a_model_is_copied_with_its_optimizer(backend):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(x):
        loss = model(x).sum()
        copied = tc.copy((model, optimizer))
        return loss + 1, copied

    loss, (its_model, its_optimizer) = compiled(run, backend)(torch.ones(1, 2))
    assert its_optimizer.param_groups[0]["params"][0] is its_model.weight
    loss.backward()
    optimizer.step()
    assert not torch.equal(model.weight, its_model.weight)
    before = model.weight.detach().clone()
    its_model(torch.ones(1, 2)).sum().backward()
    its_optimizer.step()
    assert torch.equal(model.weight, before)


def test_copying_itself_can_be_compiled(backend):
    source = {"w": torch.ones(2)}
    copied = compiled(tc.copy, backend)(source)
    source["w"].zero_()
    assert copied["w"].tolist() == [1, 1]
    copied["w"].fill_(3)
    assert source["w"].tolist() == [0, 0]


def test_a_warning_names_the_line_of_the_caller(backend):
    def run(x):
        y = x * 2
        return tc.copy({"y": y, "read": lambda: y})["y"] + 1  # the line

    with pytest.warns(tc.EscapeWarning, match="closure") as caught:
        result = compiled(run, backend)(torch.ones(2))
    lines, first = inspect.getsourcelines(run)
    named = next(w for w in caught if issubclass(w.category, tc.EscapeWarning))
    assert named.filename == __file__
    assert lines[named.lineno - first].rstrip().endswith("# the line")
    assert result.tolist() == [3, 3]


def test_what_wants_one_graph_is_told_why_there_is_none(backend):
    def run(x):
        return tc.copy([x])[0] * 2

    with pytest.raises(torch._dynamo.exc.Unsupported, match="Python objects, which are in no graph"):
        torch.compile(run, backend=backend, fullgraph=True)(torch.ones(2))
    x = torch.ones(2)
    copied = run(x)
    x.zero_()
    assert copied.tolist() == [2, 2]


def test_the_first_use_of_the_library_may_be_inside():
    code = """
import torch, torchcopy as tc

def run(x):
    y = x * 2
    copied = tc.copy([y])[0]
    y.zero_()
    return copied + 1

print(torch.compile(run, backend="eager")(torch.ones(2)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[3.0, 3.0]", done.stderr


def test_a_program_that_does_not_compile_loads_no_compiler():
    code = """
import sys, torch, torchcopy as tc
source = {"w": torch.ones(2), "model": torch.nn.Linear(2, 2)}
copied, forked = tc.copy(source), tc.fork(source)
tc.lerp_(tc.copy_(copied, source), source, 0.5)
source["w"].zero_()
assert copied["w"].tolist() == forked["w"].tolist() == [1, 1]
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_nothing_of_ours_is_compiled(backend):
    def run(x):
        copied = tc.copy({"x": x, "n": [1, "two", (3, x)]})
        return copied["x"] + 1

    function = compiled(run, backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for size in range(2, 5):
            x = torch.ones(size)
            assert function(x).tolist() == [2] * size
    code = tc.copy.__code__
    assert torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code) == []


def test_modules_are_copied_alike_before_and_after_something_was_compiled(monkeypatch):
    """The compiler replaces `Module.__setstate__`, to hear of new modules: they are as simple to copy as before."""
    torch.compile(nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))
    assert nn.Module.__setstate__.__module__ == "torch._dynamo.mutation_guard"
    early = []
    monkeypatch.setattr(TensorJobs, "fill_early", lambda jobs: early.append(list(jobs.sources)))
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.GRU(3, 3))
    copied, by_deepcopy = tc.copy(model), copy.deepcopy(model)
    assert early == []
    known = [mutation_guard.GenerationTracker.get_generation_value(m) for m in copied.modules()]
    assert known == [mutation_guard.GenerationTracker.get_generation_value(m) for m in by_deepcopy.modules()]
    with torch.no_grad():
        model[0].weight.zero_()
        assert copied[0].weight.any()
        copied[1].weight.fill_(3)
        assert (model[1].weight == 1).all()
    for each in (model, copied):
        assert torch.compile(each[0], backend="eager")(torch.ones(1, 3)).shape == (1, 3)
