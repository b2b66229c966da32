"""Where in the text of a notebook the source of its cells stands: what a JSON parser knows and does not tell."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from ..reading import NotReadError

_BLANK = re.compile(r"[ \t\r\n]*")
_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
_DECODER = json.JSONDecoder()


@dataclasses.dataclass(frozen=True, slots=True)
class JsonString:
    """A string of a JSON text.

    Attributes:
        value: what it says.
        start: the offset of its opening quote.
        end: the offset behind its closing quote.
    """

    value: str
    start: int
    end: int

    def offsets(self, raw: str) -> list[int]:
        """The offset in the JSON text of each of its characters, and of its closing quote."""
        if self.end - self.start - 2 == len(self.value):
            return list(range(self.start + 1, self.end))
        starts = [found.start() for found in _CHARACTER.finditer(raw, self.start + 1, self.end - 1)]
        return [*starts, self.end - 1]


@dataclasses.dataclass(slots=True)
class RawCell:
    """A cell as it stands in the file.

    Attributes:
        kind: `code`, `markdown`, …
        strings: what its source is made of.
    """

    kind: str = ""
    strings: tuple[JsonString, ...] = ()


@dataclasses.dataclass(slots=True)
class RawNotebook:
    """A notebook as it stands in the file.

    Attributes:
        cells: in their order.
        fields: what it holds beside them: `metadata`, `nbformat`, …
    """

    cells: list[RawCell] = dataclasses.field(default_factory=list)
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_notebook(raw: str) -> RawNotebook:
    """What a notebook holds.

    Raises:
        NotReadError: it is no JSON, or no notebook.
    """
    try:
        return _Reader(raw).notebook()
    except json.JSONDecodeError as error:
        raise NotReadError(f"is no notebook: {_lowered(error.msg)}", error.lineno) from error
    except RecursionError as error:
        raise NotReadError("is nested too deeply to be parsed") from error


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]


class _Reader:
    """Goes through a JSON text once; stops to look only at what is asked for."""

    def __init__(self, raw: str) -> None:
        self._raw = raw
        self._at = 0

    def notebook(self) -> RawNotebook:
        found = RawNotebook()
        if not self._opens("{"):
            raise NotReadError("is no notebook: it is no JSON object" if self._raw.strip() else "is empty")
        has_cells = False
        for key in self._keys():
            if key == "cells" and self._opens("["):
                found.cells = [self._cell() for _ in self._items("]")]
                has_cells = True
            else:
                found.fields[key] = self._value()
        if not has_cells:
            old = "worksheets" in found.fields
            raise NotReadError(
                "is a notebook of an old format: save it anew" if old else "is no notebook: no cells"
            )
        return found

    def _cell(self) -> RawCell:
        cell = RawCell()
        if not self._opens("{"):
            self._value()
            return cell
        for key in self._keys():
            if key == "source" and self._opens("["):
                strings = [self._string() for _ in self._items("]")]
                cell.strings = tuple(string for string in strings if string is not None)
            elif key == "source":
                string = self._string()
                cell.strings = () if string is None else (string,)
            elif key == "cell_type":
                string = self._string()
                cell.kind = "" if string is None else string.value
            else:
                self._value()
        return cell

    def _keys(self) -> Iterator[str]:
        """The keys of the object that was opened; each value has to be read before the next key is asked for."""
        for _ in self._items("}"):
            key = self._string()
            if key is None:
                raise self._error("Expecting property name enclosed in double quotes")
            if not self._opens(":"):
                raise self._error("Expecting ':' delimiter")
            yield key.value

    def _items(self, closing: str) -> Iterator[None]:
        """Stops at each item of the array or object that was opened, and goes behind its end."""
        if self._opens(closing):
            return
        while True:
            yield
            if self._opens(closing):
                return
            if not self._opens(","):
                raise self._error("Expecting ',' delimiter")

    def _opens(self, character: str) -> bool:
        """Whether `character` comes next; then it is behind."""
        self._skip()
        if not self._raw.startswith(character, self._at):
            return False
        self._at += 1
        return True

    def _string(self) -> JsonString | None:
        """The string that comes next; None if it is something else, which is then behind too."""
        self._skip()
        start = self._at
        if not self._raw.startswith('"', start):
            self._value()
            return None
        value, self._at = _DECODER.raw_decode(self._raw, start)
        return JsonString(value, start, self._at)

    def _value(self) -> Any:
        self._skip()
        value, self._at = _DECODER.raw_decode(self._raw, self._at)
        return value

    def _skip(self) -> None:
        found = _BLANK.match(self._raw, self._at)
        self._at = found.end() if found else self._at

    def _error(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self._raw, self._at)
