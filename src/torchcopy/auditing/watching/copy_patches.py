"""The functions that tell which object was made from which by Python's `copy`, and which module runs.

They refer to the audit weakly: what has wrapped them in turn goes on calling them when the audit is over.
"""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from ... import _torch_private
from ..auditor import Auditor

_Wrap = Callable[[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]], None]
_RECONSTRUCT, _COPY = (getattr(copy, name).__code__ for name in ("_reconstruct", "copy"))
_DEEPEST_SUPER = 4  # methods of subclasses between `copy` and `nn.Module.__setstate__`


class CopyPatches:
    """Wraps what `copy.copy` and `copy.deepcopy` call, and the calls of modules once there is something to see."""

    def __init__(self, auditor: Auditor, wrap: _Wrap) -> None:
        self._auditor, self._wrap = weakref.ref(auditor), wrap
        self._memo, self._site = (0, 0), 0
        self._dispatch: dict[type, Any] = getattr(copy, "_copy_dispatch", {})
        self._containers: dict[type, tuple[Any, Any]] = {}  # how they are copied without us, and with us
        self._calls: tuple[Any, Any] | None = None

    def install(self) -> None:
        """Puts the wrappers in place that are there from the beginning."""
        self._wrap(nn.Module, "__setstate__", self._setstate)
        self._wrap(Tensor, "__reduce_ex__", self._reduce)
        self._wrap(nn.Parameter, "__reduce_ex__", self._reduce)
        for kind in (dict, list):
            copies = self._dispatch.get(kind)
            if copies is not None:
                self._containers[kind] = copies, self._container(copies)
                self._dispatch[kind] = self._containers[kind][1]
        auditor = self._auditor()
        if auditor is not None:
            auditor.shared_values.watch_calls = self._watch_calls

    def remove(self) -> None:
        """Puts back what `install` has not put in place by `wrap`."""
        for kind, (before, ours) in self._containers.items():
            if self._dispatch.get(kind) is ours:
                self._dispatch[kind] = before
        if self._calls is not None:
            _torch_private.restore_module_call(*self._calls)

    def _here(self) -> Auditor | None:
        """The audit, while it looks at this thread."""
        if torch.compiler.is_compiling():
            return None
        auditor = self._auditor()
        return auditor if auditor is not None and auditor.is_on and auditor.mode_here() is not None else None

    # --- copies ---------------------------------------------------------------------------------------------------

    def _setstate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __setstate__(module: nn.Module, state: Any) -> Any:  # noqa: N807
            result = original(module, state)
            auditor = self._here()
            if auditor is not None:
                frame: FrameType | None = sys._getframe(1)
                for _ in range(_DEEPEST_SUPER):
                    if frame is None or frame.f_code is _RECONSTRUCT:
                        break
                    frame = frame.f_back
                if frame is not None and frame.f_code is _RECONSTRUCT:
                    with _torch_private.outside_modes(), auditor.lock:
                        self._module_made(auditor, frame, module)
            return result

        return __setstate__

    def _module_made(self, auditor: Auditor, frame: FrameType, made: nn.Module) -> None:
        there = frame.f_locals
        source, memo = there.get("x"), there.get("memo")
        if not isinstance(source, nn.Module) or source is made:
            return
        shared = auditor.shared_values
        if memo is None:
            if frame.f_back is not None and frame.f_back.f_code is _COPY:
                shared.shallow_copies.module_copied(source, made, frame.f_back.f_back)
            return
        last, size = self._memo
        if last != id(memo) or len(memo) <= size:  # another call of `copy.deepcopy`
            self._site = auditor.sites.of(frame)
        self._memo = id(memo), len(memo)
        shared.copied_modules.copied(source, made, memo, self._site)

    def _reduce(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __reduce_ex__(tensor: Tensor, proto: Any) -> Any:  # noqa: N807
            reduced = original(tensor, proto)
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_name == "__reduce_ex__":
                frame = frame.f_back
            if frame.f_code is not _COPY or self._here() is None or type(reduced) is not tuple:
                return reduced
            make, asked_by = reduced[0], frame.f_back

            def make_and_tell(*args: Any) -> Any:
                made = make(*args)
                auditor = self._here()
                if auditor is not None and isinstance(made, Tensor):
                    with _torch_private.outside_modes(), auditor.lock:
                        auditor.shared_values.shallow_copies.tensor_copied(tensor, made, asked_by)
                return made

            return (make_and_tell, *reduced[1:])

        return __reduce_ex__

    def _container(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def copy_container(source: Any) -> Any:
            made = original(source)
            auditor = self._here()
            if auditor is not None and sys._getframe(1).f_code is _COPY:
                with _torch_private.outside_modes(), auditor.lock:
                    auditor.shared_values.shallow_copies.items_copied(source, made, sys._getframe(2))
            return made

        return copy_container

    # --- calls ----------------------------------------------------------------------------------------------------

    def _watch_calls(self) -> None:
        if self._calls is None:
            before: Any = nn.Module.__call__
            self._wrap(nn.Module, "__call__", self._call)
            self._calls = nn.Module.__call__, before

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        auditor = self._auditor()
        watched = auditor.shared_values.modules.by_id if auditor is not None else {}
        del auditor

        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if torch.compiler.is_compiling():
                return original(module, *args, **kwargs)
            listeners = watched.get(id(module))
            auditor = self._here() if listeners else None
            mode = auditor.mode_here() if auditor is not None else None
            if not listeners or auditor is None or mode is None:
                return original(module, *args, **kwargs)
            with auditor.lock:
                ends = [each.begins(mode, module, args, kwargs) for each in tuple(listeners)]
            try:
                return original(module, *args, **kwargs)
            finally:
                for end in reversed(ends):
                    if end is not None:
                        end()

        return __call__
