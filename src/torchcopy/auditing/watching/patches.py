"""The functions of PyTorch and Python that a mode does not see: wrapped while an audit runs, put back afterwards.

Every wrapper calls what it replaces with the arguments that it was given, and returns or raises what that does. In
a compiled function they are not there: `torch.compiler.is_compiling()` is a constant to the compiler.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ... import _torch_private
from ..._tensors import has_storage
from ..auditor import Auditor
from .copy_patches import CopyPatches
from .memory_patches import MemoryPatches
from .op_mode import OpMode
from .watched_module import WatchedModule

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Patches:
    """The wrappers of one audit. `remove` puts back what was there, if nobody has replaced it since."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor
        self._replaced: list[tuple[Any, str, Any, Any, bool]] = []
        self._of_torch: dict[str, Callable[..., Any]] = {}
        self._hooks: list[Any] = []
        self._sees_compiled_calls = False
        self._end: Callable[[], None] | None = None

    def install(self, end: Callable[[], None]) -> None:
        """Puts the wrappers in place; `end` is called when the last step that is to be audited was taken."""
        self._end = end
        _torch_private.fill_tables()
        self._wrap(*_torch_private.BACKWARD, self._backward)
        self._wrap(torch, "compile", self._compile)
        self._watch_compiled_calls()
        self._wrap(FunctionCtx, "save_for_backward", self._save_for_backward)
        self._wrap(nn.Module, "state_dict", self._state_dict)
        self._wrap(nn.Module, "load_state_dict", self._load_state_dict)
        self._wrap(Optimizer, "state_dict", self._optimizer_state_dict)
        self._wrap(Optimizer, "load_state_dict", self._optimizer_load_state_dict)
        self._wrap(torch, "save", self._save)
        self._wrap(Tensor, "__deepcopy__", self._deepcopy)
        self._wrap(nn.Parameter, "__deepcopy__", self._deepcopy)
        self._wrap(Tensor, "__reduce_ex__", self._reduce)
        self._wrap(Tensor, "tolist", self._tolist)
        MemoryPatches(self._auditor, self._mode).install(self._wrap)
        self._wrap(threading.Thread, "_bootstrap_inner", self._thread)
        self._replace(Tensor, "data", self._data())
        self._hooks.append(register_optimizer_step_post_hook(self._stepped))
        copies = CopyPatches(self._auditor, self._wrap)
        copies.install()
        self._hooks.append(copies)
        self._hooks.append(WatchedModule(torch, self._of_torch))

    def _wrap(self, owner: Any, name: str, wrap: Wrap) -> None:
        before = getattr(owner, name)
        made: Any = wrap(before)
        functools.update_wrapper(made, before)
        if isinstance(owner, type):  # where pickle finds it
            made.__module__, made.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
        if owner is torch:
            self._of_torch[name] = made
        else:
            self._replace(owner, name, made)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        own = name in vars(owner)
        self._replaced.append((owner, name, vars(owner).get(name), value, own))
        setattr(owner, name, value)

    def remove(self) -> None:
        """Puts everything back."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for owner, name, before, ours, own in reversed(self._replaced):
            if vars(owner).get(name) is not ours:
                continue  # somebody has wrapped ours, which goes on doing nothing but calling
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)
        self._replaced.clear()

    # --- what all wrappers ask ------------------------------------------------------------------------------------

    def _mode(self) -> OpMode | None:
        """The mode of this thread, while it looks and is not in the midst of a call that is told already."""
        if not self._auditor.is_on or torch.compiler.is_compiling():
            return None
        mode = self._auditor.mode_here()
        return None if mode is None or mode.within else mode

    # --- autograd -------------------------------------------------------------------------------------------------

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            mode = self._mode()
            if mode is None:
                return original(roots, *args, **kwargs)
            site = auditor.sites.of(sys._getframe(1))
            mode.saw_nodes(site)
            tensors = [t for t in roots if isinstance(t, Tensor)]
            inputs = args[3] if len(args) > 3 else ()
            wanted = [t for t in inputs if isinstance(t, Tensor)]
            keeps_graph = bool(args[1]) if len(args) > 1 else False
            auditor.backward_begins(tensors, wanted, site, keeps_graph=keeps_graph)
            try:
                found = original(roots, *args, **kwargs)
            except RuntimeError as error:
                if "modified by an inplace operation" in str(error):
                    with _torch_private.outside_modes():
                        auditor.saved_values.after_error(tensors, site)
                raise
            finally:
                del tensors
            with _torch_private.outside_modes(), auditor.lock:
                auditor.kept_graphs.ran_backward()
                if kwargs.get("accumulate_grad") and not keeps_graph:
                    auditor.kept_graphs.backward_ended(sys._getframe(1))
            return found

        return run_backward

    def _save_for_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def save_for_backward(context: Any, *tensors: Any) -> None:
            mode = self._mode()
            if mode is not None:
                mode.saw_nodes(auditor.sites.of(sys._getframe(1)))
            original(context, *tensors)

        return save_for_backward

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self._auditor.stepped(optimizer, sys._getframe(1)) and self._end is not None:
            self._end()

    # --- compiled functions ---------------------------------------------------------------------------------------

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            made = self._auditor.stand_ins.call(sys._getframe(1), original, args, kwargs)  # imports the compiler
            self._watch_compiled_calls()
            return made

        return compile

    def _watch_compiled_calls(self) -> None:
        found = _torch_private.compiled_calls()
        if found is not None and not self._sees_compiled_calls:
            self._sees_compiled_calls = True
            _torch_private.never_compile("torchcopy.auditing", "torchcopy._torch_private")
            self._wrap(*found, self._compiled_call)

    def _compiled_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def callback_from_stance(callback: Any) -> Any:
            frame = sys._getframe(1)
            name = _torch_private.compiled_function(frame) if self._auditor.is_on else None
            if name is not None:
                self._auditor.ran_compiled(name)
            return original(callback)

        return callback_from_stance

    # --- states ---------------------------------------------------------------------------------------------------

    def _state_dict(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def state_dict(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            mode = self._mode()
            if mode is None or kwargs.get("destination") is not None:  # a part of another call
                return original(module, *args, **kwargs)
            caller = sys._getframe(1)
            if args:
                return auditor.stand_ins.call(caller, original, (module, *args), kwargs)
            mode.within = "state_dict"
            try:
                state = auditor.stand_ins.call(caller, original, (module,), kwargs)
            finally:
                mode.within = ""
            with _torch_private.outside_modes(), auditor.lock:
                auditor.kept_states.taken(module, state, auditor.sites.of(sys._getframe(1)))
            return state

        return state_dict

    def _load_state_dict(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def load_state_dict(module: nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            mode = self._mode()
            if mode is None:
                return original(module, state_dict, *args, **kwargs)
            site = auditor.sites.of(sys._getframe(1))
            assign = bool(kwargs.get("assign", args[1] if len(args) > 1 else False))
            with _torch_private.outside_modes(), auditor.lock:
                auditor.kept_states.loading(module, state_dict, site, assign=assign)
            mode.within = "load_state_dict"
            try:
                return auditor.stand_ins.call(sys._getframe(1), original, (module, state_dict, *args), kwargs)
            finally:
                mode.within = ""

        return load_state_dict

    def _optimizer_state_dict(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def state_dict(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            state = original(optimizer, *args, **kwargs)
            if self._mode() is not None:
                auditor.kept_states.optimizer_taken(
                    optimizer, auditor.sites.of(sys._getframe(1)), auditor.steps_of(optimizer)
                )
            return state

        return state_dict

    def _optimizer_load_state_dict(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def load_state_dict(optimizer: Optimizer, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            if self._mode() is not None:
                auditor.kept_states.optimizer_loading(
                    optimizer,
                    state_dict,
                    auditor.sites.of(sys._getframe(1)),
                    auditor.steps_of(optimizer),
                    auditor.last_step_at,
                )
            return original(optimizer, state_dict, *args, **kwargs)

        return load_state_dict

    # --- copies ---------------------------------------------------------------------------------------------------

    def _deepcopy(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def __deepcopy__(tensor: Tensor, memo: Any) -> Any:  # noqa: N807
            mode = self._mode()
            if mode is None or id(tensor) in memo:
                return original(tensor, memo)
            site = auditor.sites.of(sys._getframe(1))
            mode.within = "deepcopy"
            start = perf_counter()
            try:
                made = original(tensor, memo)
            finally:
                mode.within = ""
            end = perf_counter()
            if type(made) is type(tensor) and has_storage(tensor) and has_storage(made):
                with _torch_private.outside_modes(), auditor.lock:
                    auditor.kept_states.read(tensor, site)
                    auditor.copies.copied(site, "clone", tensor, made, end - start, start - auditor.started)
                    auditor.waste.deepcopied(site, tensor, made.nbytes, end - start)
                    auditor.storages.sweep_if_due()
            return made

        return __deepcopy__

    def _save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def save(*args: Any, **kwargs: Any) -> Any:
            mode = self._mode()
            if mode is None:
                return original(*args, **kwargs)
            site = auditor.sites.of(sys._getframe(1))
            mode.within, mode.saved = "save", {}
            start = perf_counter()
            try:
                return auditor.stand_ins.call(sys._getframe(1), original, args, kwargs)
            finally:
                saved, mode.within, mode.saved = mode.saved, "", None
                size = sum(saved.values())
                if saved:
                    end = perf_counter()
                    auditor.copies.wrote(site, "serialisation", size, end - start, start - auditor.started)

        return save

    def _reduce(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def __reduce_ex__(tensor: Tensor, proto: Any) -> Any:  # noqa: N807
            mode = auditor.mode_here() if auditor.is_on else None
            if mode is not None and mode.saved is not None and has_storage(tensor):
                mode.saved[_torch_private.storage_id(tensor)] = tensor.untyped_storage().nbytes()
                auditor.kept_states.read(tensor, auditor.sites.of(sys._getframe(1)), "saved")
            return original(tensor, proto)

        return __reduce_ex__

    def _tolist(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def tolist(tensor: Tensor) -> Any:
            if self._mode() is not None:
                auditor.waited(auditor.sites.of(sys._getframe(1)), tensor)
            return original(tensor)

        return tolist

    # --- other ways to the memory ---------------------------------------------------------------------------------

    def _data(self) -> property:
        auditor = self._auditor
        there: Any = Tensor.data
        idioms = auditor.shared_values.data_attribute

        def read(tensor: Tensor) -> Any:
            """The tensor without its graph, in the same memory."""
            if self._mode() is not None:
                auditor.saved_values.expose(tensor)
            made = there.__get__(tensor)
            if idioms.is_on and auditor.is_on:
                idioms.taken(sys._getframe(1), made)
            return made

        def write(tensor: Tensor, value: Tensor) -> None:
            if self._mode() is not None and isinstance(value, Tensor):
                auditor.given_data(tensor, value, auditor.sites.of(sys._getframe(1)))
                if idioms.is_on:
                    idioms.assigned(sys._getframe(1))
            there.__set__(tensor, value)

        return property(read, write, there.__delete__, there.__doc__)

    # --- threads --------------------------------------------------------------------------------------------------

    def _thread(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor

        def _bootstrap_inner(thread: threading.Thread) -> None:
            if not auditor.is_on or thread.name.startswith("torchcopy-"):
                original(thread)
                return
            mode = auditor.mode()
            try:
                with mode:
                    original(thread)
            finally:
                auditor.thread_ended(mode)

        return _bootstrap_inner


_RUNNING: list[Auditor] = []


def _in_child() -> None:
    for auditor in _RUNNING:
        auditor.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def running(auditor: Auditor, *, starts: bool) -> None:
    """Notes which audits run, for forked children."""
    if starts:
        _RUNNING.append(auditor)
    elif auditor in _RUNNING:
        _RUNNING.remove(auditor)
