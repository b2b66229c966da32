"""What is not trained costs nothing in the lazy mode: measured as memory of the process, not as it is told."""

import subprocess
import sys

PROGRAM = """
import gc, os
from pathlib import Path
import torch
from torch import nn
import torchcopy as tc

MIB = 1 << 20
torch.set_num_threads(1)

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB

model = nn.ParameterList([nn.Parameter(torch.ones(MIB // 10), requires_grad=k == 99) for k in range(100)])  # 40 MiB
optimizer = torch.optim.SGD([model[99]], lr=0.1, fused=True)
history = tc.History(model=model, optimizer=optimizer, mode="lazy", keep=None)

def step():
    model[99].grad = torch.ones_like(model[99])
    optimizer.step()

step()
history.take()
history.clear()
gc.collect()
before = resident()
for _ in range(100):
    step()
    history.take()
gc.collect()
print(resident() - before)
with torch.no_grad():
    torch._foreach_add_(list(model), 1.0)
print(resident() - before)
frozen = [s.state_dict()["0"] for s in (history[0], history[-1])]
print(len({float(s.state_dict()["99"][0]) for s in history}), all((t == 1).all() for t in frozen))
"""


def test_a_hundred_snapshots_with_one_percent_trainable():
    """40 MiB of model: a hundred times a percent is as much again, a hundred copies would be 4000 MiB."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    grown, diverged, values = done.stdout.splitlines()
    slack = 8  # what the states of the random generators take, and Python's own
    assert float(grown) <= 40 + slack
    assert float(diverged) <= 40 + 40 + slack
    assert values == "100 True"
