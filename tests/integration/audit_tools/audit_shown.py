"""What the programs of `audit_clean` and `audit_unchanged` print of themselves, to be compared bit for bit."""

import atexit
import copy
import gc
import hashlib
import pickle
import random
import signal
import sys
import threading
import types

import numpy as np
import torch

from bitwise import bits

torch.manual_seed(0)
np.random.seed(0)
random.seed(0)


_COME_AND_GO = (
    "QueueFeeder",  # a queue's, until it is collected
    "torchcopy-anchors",  # of lazy clones, for as long as some share bytes and a moment more
    "tqdm_monitor",  # of the compiler's progress bar, which is there where nothing was compiled and kept before
)


def show(**values):
    """Prints a fingerprint of each value: two are equal if and only if all bits are."""
    for name, value in values.items():
        print(f"{name}: {hashlib.sha256(repr(bits(value)).encode()).hexdigest()[:16]}")


def show_training(model, *optimizers):
    """Prints fingerprints of all that a training goes on from."""
    show(
        parameters=dict(model.named_parameters()),
        gradients={name: p.grad for name, p in model.named_parameters()},
        buffers=dict(model.named_buffers()),
        optimizers=[each.state_dict() for each in optimizers],
    )


def random_numbers():
    """The state of every source of random numbers."""
    return {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}


def left_behind():
    """What an audit could have left: modes, hooks, patches, handlers, threads, settings. As comparable text."""
    module, optimizer = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
    autograd = torch._C._autograd
    return {
        "modes": (torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()),
        "module hooks": [
            len(value) for name, value in sorted(vars(module).items()) if name.startswith("_global_") and value
        ],
        "optimizer hooks": [
            len(value) for name, value in sorted(vars(optimizer).items()) if name.startswith("_global_")
        ],
        "saved tensors hooks": str(autograd._top_saved_tensors_default_hooks(True)),
        "interpreter": [sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()],
        "hooks": [str(sys.excepthook), str(threading.excepthook), str(sys.unraisablehook), str(gc.callbacks)],
        "finders": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path],
        "signals": [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "threads": sorted(t.name for t in threading.enumerate() if not t.name.startswith(_COME_AND_GO)),
        "settings": [
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_warn_always_enabled(),
            torch.get_num_threads(),
            torch.is_anomaly_enabled(),
            torch.autograd.is_multithreading_enabled(),
            gc.isenabled(),
            gc.get_threshold(),
            sys.getrecursionlimit(),
        ],
        "patched": _patched(),
    }


def patchable():
    """Where an audit could put functions of its own."""
    namespaces = [torch, torch.Tensor, torch.nn.Module, torch.nn.Parameter, torch.nn.functional, torch.autograd]
    namespaces += [torch.optim.Optimizer, *torch.optim.Optimizer.__subclasses__(), torch.serialization, torch.cuda]
    namespaces += [torch.autograd.graph, torch.autograd.Function, torch.utils.data, torch.utils.checkpoint]
    namespaces += [torch.Storage, torch.UntypedStorage, torch.jit, torch.compiler, torch.func]
    return [*namespaces, copy, pickle, np, threading, threading.Thread, sys.modules["builtins"], sys, gc]


def _patched():
    """Functions that stand in a namespace of somebody else's and come from torchcopy."""
    found = []
    for namespace in patchable():
        for name, value in vars(namespace).items():
            function = getattr(value, "__func__", value)
            if isinstance(value, types.ModuleType) or (isinstance(namespace, type) and name == "__module__"):
                continue
            home = getattr(function, "__module__", None) or ""
            code = getattr(function, "__code__", None)
            if str(home).startswith("torchcopy") or "torchcopy/auditing" in str(getattr(code, "co_filename", "")):
                found.append(f"{namespace.__name__}.{name}")
    return sorted(found)


@atexit.register
def _show_what_is_left():
    """Runs when an audit has ended: a program that is not audited prints the same."""
    import multiprocessing

    if multiprocessing.parent_process() is None:
        show(random_numbers=random_numbers())
        print("left behind:", left_behind())
