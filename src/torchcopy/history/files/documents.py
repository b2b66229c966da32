"""JSON with a checksum in its first line: the manifest of a snapshot, the list of a history.

The checksum covers every byte behind that line, so that a document is known to be whole before it is read.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

import xxhash

from .faults import Fault, shown

LARGEST_BYTES: Final = 256 << 20
_FIRST_LINE: Final = re.compile(rb'\{"checksum": "xxh3-128:([0-9a-f]{32})",\n')
_FIRST_LINE_BYTES: Final = 58


def encode(format_name: str, version: int, body: dict[str, Any]) -> bytes:
    """The document as bytes.

    Raises:
        ValueError: it is larger than what would be read again.
    """
    whole = {"format": format_name, "version": version, **body}
    # One entry a line at the top: people look into it, and a difference is seen by line.
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in whole.items()]
    rest = (",\n".join(lines) + "}\n").encode("ascii")
    if len(rest) + _FIRST_LINE_BYTES > LARGEST_BYTES:
        raise ValueError(f"takes {len(rest):,} bytes as JSON, of at most {LARGEST_BYTES:,}")
    return b'{"checksum": "xxh3-128:%s",\n' % xxhash.xxh3_128_hexdigest(rest).encode() + rest


def checksum_of(data: bytes) -> str:
    """The checksum that stands in a document's first line; to be asked of whole documents only."""
    return data[23:55].decode("ascii")


def decode(data: bytes, format_name: str, version: int) -> dict[str, Any]:
    """What `encode` was given.

    Raises:
        Fault: it is another thing, was changed, or is of a newer format.
    """
    first = _FIRST_LINE.match(data)
    if first is None:
        raise Fault(f"does not begin as a {format_name} does")
    rest = memoryview(data)[first.end() :]
    if xxhash.xxh3_128_hexdigest(rest) != first.group(1).decode():
        raise Fault("was changed or cut off: its checksum does not match")
    try:
        whole = json.loads(
            data.decode("ascii"), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise Fault("has too many values inside each other") from None
    except ValueError as error:  # of which UnicodeDecodeError and JSONDecodeError are kinds
        raise Fault(f"is no JSON: {error}") from None
    if not isinstance(whole, dict) or whole.get("format") != format_name:
        raise Fault(f"is no {format_name}: its format is {shown(whole.get('format'))}")
    if type(whole.get("version")) is not int or whole["version"] != version:
        raise Fault(f"has format version {shown(whole.get('version'))}; this torchcopy reads version {version}")
    return whole


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Fault("has the same key twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise Fault(f"has {name} where a number is expected")


# --- reading what was decoded ----------------------------------------------------------------------------------


def entry(mapping: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`mapping[key]`, which has to be of a type; a bool is no int.

    Raises:
        Fault: it is not there, or of another type.
    """
    value = mapping.get(key) if isinstance(mapping, dict) else None
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) not in kinds:
        wanted = " or ".join(k.__name__ for k in kinds)
        raise Fault(f"{where}: `{key}` must be of type {wanted}; found {shown(value)}")
    return value


def size(mapping: Any, key: str, where: str) -> int:
    """`mapping[key]`, a number from 0 on, and none that is absurd.

    Raises:
        Fault: it is another thing.
    """
    value = entry(mapping, key, int, where)
    if not 0 <= value < 1 << 62:
        raise Fault(f"{where}: `{key}` must be a number from 0 on; found {shown(value)}")
    return int(value)


def sizes(value: Any, where: str) -> tuple[int, ...]:
    """A list of numbers from 0 on, none of them absurd.

    Raises:
        Fault: it is another thing.
    """
    if type(value) is not list or not all(type(n) is int and 0 <= n < 1 << 62 for n in value):
        raise Fault(f"{where} must be a list of numbers from 0 on; found {shown(value)}")
    return tuple(value)
