"""A tracer, a profiler of Python's and torch's own profiler, set by the program."""

import sys

import torch
from audit_shown import show

events = []
MINE = __file__


def trace(frame, event, arg):
    if frame.f_code.co_filename == MINE:
        events.append((event, frame.f_code.co_name, frame.f_lineno))
        return trace
    return None


def step(x):
    y = x.clone()
    return y.add_(1)


sys.settrace(trace)
result = step(torch.ones(2))
sys.settrace(None)
sys.setprofile(lambda frame, event, arg: events.append(event) if frame.f_code.co_filename == MINE else None)
result = step(result)
sys.setprofile(None)
print(events)
with torch.profiler.profile(record_shapes=True) as profile, torch.profiler.record_function("mine"):
    show(product=torch.ones(3, 3) @ torch.ones(3, 3))
names = {event.key for event in profile.key_averages()}
print(sorted(names & {"mine", "aten::mm", "aten::matmul"}))
with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), torch.random.fork_rng():
    torch.manual_seed(1)
    show(random=torch.rand(3))
