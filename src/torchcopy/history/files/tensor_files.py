"""Safetensors files: written with the tensors' own memory, read as memory that is mapped, every byte verified."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
import xxhash
from safetensors import SafetensorError, TensorSpec, safe_open, serialize_file
from torch import Tensor

from ..._tensors import dtype_name, first_byte
from .directories import Directory
from .documents import entry
from .faults import Fault, shown

_LARGEST_HEADER_BYTES: Final = 100_000_000  # the safetensors library's own limit
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")

DTYPES: Final[Mapping[str, torch.dtype]] = {
    name: dtype
    for name in (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
    ).split()
    if isinstance(dtype := getattr(torch, name, None), torch.dtype)
}
"""What a safetensors file can hold."""
_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
_SMALL: Final = 4096  # bytes that are copied sooner than looked at in place


@dataclasses.dataclass(frozen=True)
class FileFacts:
    """What a manifest says of a safetensors file as a whole.

    Attributes:
        nbytes: its size.
        header_checksum: of its beginning, up to the first byte of a tensor.
    """

    nbytes: int
    header_checksum: str

    def to_json(self) -> dict[str, Any]:
        """As it stands in the manifest."""
        return {"bytes": self.nbytes, "header_checksum": self.header_checksum}

    @classmethod
    def from_json(cls, x: Any, name: str) -> FileFacts:
        """From what stands in the manifest.

        Raises:
            Fault: it is not what `to_json` made.
        """
        where = f"files[{shown(name)}]"
        return cls(entry(x, "bytes", int, where), entry(x, "header_checksum", str, where))


def _checksum(address: int, nbytes: int) -> str:
    """Of bytes in main memory, which are only read: lazy tensors stay lazy."""
    return xxhash.xxh3_128_hexdigest(
        ctypes.string_at(address, nbytes) if nbytes < _SMALL else _seen(address, nbytes)
    )


def _seen(address: int, nbytes: int) -> ctypes.Array[ctypes.c_char]:
    return (ctypes.c_char * nbytes).from_address(address)


def write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> tuple[FileFacts, list[str]]:
    """Writes a file and sees to it that it is on the disk.

    Args:
        path: of the file, which is not there yet.
        tensors: in main memory, their elements in order. Their own memory is what is written: nothing is copied.
        metadata: what else goes into the header.

    Returns:
        What the manifest is to say of the file, and of each tensor its checksum.

    Raises:
        OSError: it cannot be written.
    """
    specs, checksums = {}, []
    for name, t in tensors.items():
        address, nbytes = first_byte(t), t.nbytes
        specs[name] = TensorSpec(dtype=_NAMES[t.dtype], shape=t.shape, data_ptr=address, data_len=nbytes)
        checksums.append(_checksum(address, nbytes))
    path.touch(exist_ok=False)
    mode = path.stat().st_mode & 0o777  # as the user's files have it; the library would have 0o600
    try:
        serialize_file(specs, path, metadata={"format": "pt", **metadata})
    except SafetensorError as error:
        number = _OS_ERROR.search(str(error))
        if number is None:
            raise OSError(f"{path} could not be written: {error}") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(mode)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        facts = FileFacts(os.fstat(file.fileno()).st_size, _header_checksum(file.read(8), file.read))
    return facts, checksums


def _header_checksum(length: bytes, read: Any) -> str:
    return xxhash.xxh3_128_hexdigest(length + read(int.from_bytes(length, "little")))


@dataclasses.dataclass(frozen=True)
class MappedFile:
    """A file whose tensors are mapped.

    Attributes:
        path: where it was.
        tensors: by name. Who writes them writes memory of the process, never the file.
        identity: which file it is, how large, and when it was last written.
    """

    path: Path
    tensors: dict[str, Tensor]
    identity: tuple[int, ...]

    def fault(self) -> str | None:
        """What has happened to the file since, if its bytes are not what they were; None as long as they are.

        Another file in its place does no harm: what is mapped is the one that was there.
        """
        try:
            now = _identity(self.path.stat(follow_symlinks=False))
        except OSError:
            return None
        return (
            "was changed after it had been loaded"
            if now[:2] == self.identity[:2] and now != self.identity
            else None
        )


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def read(directory: Directory, name: str, facts: FileFacts) -> MappedFile:
    """Maps a file. Its header is verified, its tensors are not.

    Raises:
        Fault: it is not what was written.
    """
    with directory.opened(name) as descriptor:
        identity = _identity(os.fstat(descriptor))
        size = identity[2]
        if size != facts.nbytes:
            raise Fault(f"has {size:,} bytes; {facts.nbytes:,} were written", name)
        length = os.pread(descriptor, 8, 0) if hasattr(os, "pread") else os.read(descriptor, 8)
        if int.from_bytes(length, "little") > min(size, _LARGEST_HEADER_BYTES):
            raise Fault("is no safetensors file: its header would be longer than the file", name)
        if _header_checksum(length, lambda n: os.pread(descriptor, n, 8)) != facts.header_checksum:
            raise Fault("was changed: the checksum of its header does not match", name)
        try:
            with safe_open(directory.path_of(name, descriptor), framework="pt") as opened:
                tensors = opened.get_tensors()
        except (SafetensorError, ValueError, RuntimeError, OverflowError, KeyError) as error:
            raise Fault(f"is no safetensors file that can be read: {error}", name) from None
        return MappedFile(directory.path / name, tensors, identity)


def verify(t: Tensor, name: str, file: str, dtype: torch.dtype, shape: Sequence[int], expected: str) -> None:
    """Sees to it that a tensor of a file is what was written.

    Raises:
        Fault: it is not.
    """
    if t.dtype != dtype or tuple(t.shape) != tuple(shape):
        found = f"{dtype_name(t.dtype)}{list(t.shape)}"
        raise Fault(f"{shown(name)} is {found}; written was {dtype_name(dtype)}{list(shape)}", file)
    if _checksum(first_byte(t), t.nbytes) != expected:
        raise Fault(f"{shown(name)} was changed: its checksum does not match", file)
