"""Begins an audit when the program imports torch.

A program may set `OMP_NUM_THREADS` or `CUBLAS_WORKSPACE_CONFIG` before it imports torch, and torch reads them as it
is imported: to import it earlier, on the program's behalf, would change results.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType, TracebackType
from typing import Any


class AtTorch(AbstractContextManager[Any], MetaPathFinder):
    """Enters a context as soon as torch has been imported, which may be now, later or never.

    Attributes:
        entered: the context that was entered; None so far.
        elsewhere: torch was imported by another thread first, so that nothing was entered: modes belong to threads.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self.entered: Any = None
        self.elsewhere = False
        self._make = make
        self._process = os.getpid()
        self._thread = threading.get_ident()

    def __enter__(self) -> AtTorch:
        if "torch" in sys.modules:
            self._begin()
        else:
            sys.meta_path.insert(0, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self.entered is not None:
            self.entered.__exit__(kind, error, traceback)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds torch as the others do, and has its loader tell when it has been loaded."""
        del path, target
        if name != "torch" or os.getpid() != self._process:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return spec
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # the loader is as it was from here on
            try:
                load(module)
            except BaseException:
                sys.meta_path.insert(0, self)
                raise
            self._begin_after_import()

        loader.exec_module = exec_module
        return spec

    def _begin_after_import(self) -> None:
        """Begins when the `import` statement has let go of its locks: what begins may start threads that import."""
        before = sys.getprofile()

        def when_returned(frame: FrameType, event: str, _: object) -> None:
            caller = frame.f_back
            if event == "return" and _imports(frame) and not (caller is not None and _imports(caller)):
                sys.setprofile(before)
                self._begin()

        sys.setprofile(when_returned)

    def _begin(self) -> None:
        if threading.get_ident() != self._thread:
            self.elsewhere = True
            return
        made = self._make()
        made.__enter__()
        self.entered = made


def _imports(frame: FrameType) -> bool:
    return frame.f_code.co_filename == "<frozen importlib._bootstrap>"
