"""The ways on which the memory of a tensor gets to NumPy, to other libraries, and back: wrapped during an audit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ... import _torch_private
from ..._tensors import first_byte, has_storage
from ..auditor import Auditor
from .op_mode import OpMode

Call = Callable[..., Any]
Wrap = Callable[[Any, str, Callable[[Call], Call]], None]


class MemoryPatches:
    """Wrappers that tell an auditor who shares the memory of a tensor from now on.

    Args:
        auditor: who is told.
        mode: the mode of this thread, while it looks.
    """

    def __init__(self, auditor: Auditor, mode: Callable[[], OpMode | None]) -> None:
        self._auditor, self._mode = auditor, mode

    def install(self, wrap: Wrap) -> None:
        """Puts the wrappers in place by `wrap(owner, name, make)`."""
        wrap(Tensor, "numpy", self._numpy)
        for name in ("from_numpy", "as_tensor", "asarray", "frombuffer", "from_dlpack"):
            wrap(torch, name, self._of_memory)
        wrap(Tensor, "__dlpack__", self._raw)
        wrap(Tensor, "data_ptr", self._address)
        if self._auditor.streams is not None:
            self._auditor.streams.install(wrap)
            for name in ("tolist", "__reduce_ex__", "__deepcopy__"):
                wrap(Tensor, name, self._read)
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(numpy, "from_dlpack"):
            wrap(numpy, "from_dlpack", self._numpy_from_dlpack)

    def _numpy(self, original: Call) -> Call:
        auditor = self._auditor

        def numpy(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._mode() is None:
                return original(tensor, *args, **kwargs)
            frame = sys._getframe(1)
            array = auditor.stand_ins.call(frame, original, (tensor, *args), kwargs)
            site = auditor.sites.of(frame)
            auditor.kept_states.read(tensor, site)
            if auditor.pending_copies and auditor.streams is not None:
                auditor.streams.array_made(tensor, array, site)
            if share_memory(tensor, array):
                auditor.shared("tensor", tensor, array, frame)
            return array

        return numpy

    def _read(self, original: Call) -> Call:
        """What reads a tensor on the host without an operation."""
        auditor = self._auditor

        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if auditor.pending_copies and auditor.is_on and auditor.streams is not None:
                frame = sys._getframe(1)
                auditor.streams.read(tensor, lambda: auditor.sites.of(frame))
            return original(tensor, *args, **kwargs)

        return read

    def _of_memory(self, original: Call) -> Call:
        auditor = self._auditor

        def made_of_memory(*args: Any, **kwargs: Any) -> Any:
            made = auditor.stand_ins.call(sys._getframe(1), original, args, kwargs)
            source = args[0] if args else next(iter(kwargs.values()), None)
            if made is source or isinstance(source, (list, tuple, int, float)) or self._mode() is None:
                return made
            if share_memory(made, source):
                auditor.shared("array", made, source, sys._getframe(1))
            elif original.__name__ == "frombuffer" and not isinstance(source, bytes):
                auditor.exposed_for_good(made)
            return made

        return made_of_memory

    def _numpy_from_dlpack(self, original: Call) -> Call:
        auditor = self._auditor

        def from_dlpack(source: Any, /, *args: Any, **kwargs: Any) -> Any:
            mode = self._mode() if isinstance(source, Tensor) else None
            if mode is None:
                return original(source, *args, **kwargs)
            mode.within = "from_dlpack"
            try:
                array = original(source, *args, **kwargs)
            finally:
                mode.within = ""
            if share_memory(source, array):
                auditor.shared("tensor", source, array, sys._getframe(1))
            return array

        return from_dlpack

    def _raw(self, original: Call) -> Call:
        def __dlpack__(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            capsule = original(tensor, *args, **kwargs)
            if self._mode() is not None:
                self._auditor.exposed_for_good(tensor)
            return capsule

        return __dlpack__

    def _address(self, original: Call) -> Call:
        auditor = self._auditor
        sites = auditor.sites

        def data_ptr(tensor: Tensor) -> Any:
            address = original(tensor)
            if self._mode() is not None:
                frame = sys._getframe(1)
                shows = auditor.numpy_sharing.names.only_shows
                if sites.is_program_code(frame.f_code) and not shows(sites.of(frame)):
                    auditor.exposed_for_good(tensor)
            return address

        return data_ptr


def share_memory(tensor: Any, array: Any) -> bool:
    """Whether an array begins where a tensor on the CPU does."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(array, numpy.ndarray) or not isinstance(tensor, Tensor):
        return False
    plain = type(tensor) is Tensor  # who asks a subclass is not to be seen by it
    with _torch_private.without_function_modes() if plain else _torch_private.outside_modes():
        if tensor.device.type != "cpu" or not has_storage(tensor) or not tensor.nbytes:
            return False
        return bool(array.__array_interface__["data"][0] == first_byte(tensor))
