"""The tensors of a snapshot that was loaded: mapped from its files."""

from __future__ import annotations

from torch import Tensor

from ..._errors import CorruptSnapshotError
from ..held_tensors import HeldTensors
from .layouts import Layout, build
from .tensor_files import MappedFile


class LoadedTensors(HeldTensors):
    """The tensors of a snapshot that was loaded: in memory that is mapped from files until somebody reads it.

    They are no buffers for the next snapshot, though nothing would happen to the files: their memory is the
    system's to take back. Those that lie otherwise than in the file are put together when somebody first asks.
    """

    __slots__ = ("_built", "_files", "_layouts", "_stored")

    def __init__(self, layouts: list[Layout], stored: list[Tensor | None], files: tuple[MappedFile, ...]) -> None:
        self._files, self._layouts, self._stored = files, layouts, stored
        self._built: list[Tensor] | None = None
        super().__init__([], None, lazy=True)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors.

        Raises:
            CorruptSnapshotError: a file was cut off or written since, and what is mapped with it.
        """
        for file in self._files:
            fault = file.fault()
            if fault is not None:
                raise CorruptSnapshotError(f"{file.path} {fault}: load the snapshot again")
        if self._built is None:
            self._built = build(self._layouts, self._stored)
            self._stored = []
        return self._built

    @tensors.setter
    def tensors(self, tensors: list[Tensor]) -> None:
        pass  # what the base class begins with
