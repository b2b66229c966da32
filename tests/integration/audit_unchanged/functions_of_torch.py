"""torch's own functions, by name and as objects: their tables, pickled, scripted, as attributes, under a device."""

import functools
import io
import pickle
import warnings

import numpy as np
import torch
from audit_shown import show
from torch import as_tensor, from_numpy
from torch.overrides import TorchFunctionMode

with torch.device("meta"):
    print(torch.as_tensor([1.0]).device, torch.asarray([1.0]).device, as_tensor([1.0]).device)


class Loads:
    transform = torch.from_numpy  # a built-in function does not bind
    to = functools.partial(torch.as_tensor, dtype=torch.float32)

    def __call__(self, array):
        return self.transform(array), self.to(array), from_numpy(array)


loads = pickle.loads(pickle.dumps(Loads()))
print([t.dtype for t in loads(np.ones(2))])
for function in (
    torch.from_numpy,
    torch.as_tensor,
    torch.save,
    from_numpy,
    torch.Tensor.numpy,
    torch.Tensor.tolist,
):
    again = pickle.loads(pickle.dumps(function))
    print(again.__name__, again.__doc__ == function.__doc__)
print(pickle.loads(pickle.dumps(torch.nn.Module.state_dict)) is torch.nn.Module.state_dict)
print(torch.from_numpy in torch.overrides.get_ignored_functions(), {torch.save: 1}[torch.serialization.save])
print(torch.save != torch.serialization.save, torch.save == torch.load, torch.asarray == torch.as_tensor)


class Saves(torch.nn.Linear):
    save = torch.save  # a function written in Python does
    kinds = frozenset({torch.as_tensor, torch.asarray})


file = io.BytesIO()
Saves(2, 1).save(file)
file.seek(0)
print(list(torch.load(file, weights_only=False).state_dict()), Saves.save is torch.save)


class Counts(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("seen", func in Saves.kinds)
        return func(*args, **(kwargs or {}))


with Counts():
    torch.as_tensor([1.0])
print(repr(torch.asarray)[:30], torch.asarray is torch.asarray, type(torch).__name__, "as_tensor" in dir(torch))
for wrong in (
    lambda: pickle.dumps(torch),
    lambda: torch.no_such_function,
    lambda: torch.nn.Linear(2, 2).load_state_dict(),
):
    try:
        wrong()
    except (TypeError, AttributeError) as error:
        print(type(error).__name__, error)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    @torch.jit.script
    def scripted(x: float) -> torch.Tensor:
        return torch.as_tensor(x) + 1


show(scripted=scripted(1.0))
print(torch.overrides.is_tensor_method_or_property(torch.Tensor.add))


def plus_array(x):
    return x + torch.as_tensor([1.0, 2.0])


compiled = torch.compile(plus_array, backend="eager", fullgraph=True)
model = torch.nn.Linear(2, 2)
state = torch.compile(lambda x: x + model.state_dict()["bias"].sum() * 0, backend="eager", fullgraph=True)
for _ in range(3):
    show(compiled=compiled(torch.ones(2)), state=state(torch.ones(2)))
print(torch._dynamo.utils.counters["stats"]["unique_graphs"], dict(torch._dynamo.utils.counters["graph_break"]))

torch.tolist = torch.arange  # what a program adds to the module, or replaces there, is what it finds
torch.frombuffer = len
print(torch.tolist(2).shape, torch.frombuffer([1, 2]))
del torch.tolist
print(hasattr(torch, "tolist"))
