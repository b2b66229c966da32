"""Copies and forks while a program ends: it ends well, and says nothing."""

import subprocess
import sys

import pytest

PROGRAMS = {
    "in `atexit`": """
import atexit, torch, torchcopy as tc

model, forks = torch.nn.Linear(2, 2), []

def end():
    copied, forked = tc.copy({"model": model, "t": torch.ones(3)}), tc.fork(model)
    forks.append(forked)
    with torch.no_grad():
        model.weight.zero_()
    print(bool(forked.weight.any()), bool(copied["model"].weight.any()))

atexit.register(end)
""",
    "in `atexit`, after ours": """
import atexit

def end():
    forked = tc.fork({"a": source})
    source.add_(1)
    print(forked["a"].tolist() == [1, 1], tc.copy([source])[0].tolist() == [2, 2])

atexit.register(end)
import torch, torchcopy as tc
source = torch.ones(2)
kept = tc.fork([source])
""",
    "in `__del__`": """
import torch, torchcopy as tc

class Ends:
    def __init__(self):
        self.model = torch.nn.Linear(2, 2)
        self.itself = self

    def __del__(self, tc=tc, print=print):
        copied, forked = tc.copy(self.model), tc.fork(self.model)
        self.model.weight.data.zero_()
        print(bool(forked.weight.any()), bool(copied.weight.any()))

tc.copy([torch.ones(1)]), tc.fork([torch.ones(1)])
ends = Ends()
""",
    "forks held to the end": """
import threading, torch, torchcopy as tc

source = [torch.ones(1000) for _ in range(50)]
torch.held = source, tc.fork(source, 3)
source[0].add_(1)
print(float(torch.held[1][0][0][0]) == 1, float(source[0][0]) == 2)
""",
    "forks on threads": """
import threading, torch, torchcopy as tc

source, kept, go_on = [torch.ones(1000) for _ in range(50)], threading.local(), threading.Event()
seen = []

def work():
    kept.forked = tc.fork(source)
    go_on.wait()
    kept.forked[0].add_(5)
    seen.append(float(kept.forked[1][0]) == 1)
    if len(seen) == 4:
        print(all(seen), float(source[0][0]) == 1)

for _ in range(4):
    threading.Thread(target=work).start()
threading.Timer(0.2, go_on.set).start()
""",
    "a thread that outlives the program's end": """
import threading, torch, torchcopy as tc

source = [torch.ones(1000) for _ in range(50)]

def work():
    threading.main_thread().join()
    forked, copied = tc.fork(source), tc.copy(source)
    source[0].add_(1)
    print(float(forked[0][0]) == 1, float(copied[0][0]) == 1)

threading.Thread(target=work).start()
""",
    "a pool of threads": """
import torch, torchcopy as tc
from concurrent.futures import ThreadPoolExecutor

source = [torch.ones(1000) for _ in range(50)]
results = [ThreadPoolExecutor(3).submit(make, source) for make in (tc.fork, tc.copy) * 5]
copies = [result.result() for result in results]
for t in source:
    t.zero_()
print(all(float(t[0]) == 1 for copied in copies for t in copied), True)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_well(name):
    done = subprocess.run([sys.executable, "-c", PROGRAMS[name]], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "True True\n"
