"""From the bytes of a file to the text that is parsed, and back; or why it is skipped."""

from __future__ import annotations

import codecs
import dataclasses
import hashlib
import io
import re
import tokenize
from pathlib import Path

_PYTHON_2_MESSAGES = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "parameters cannot be parenthesized",
)
_PYTHON_2 = re.compile(
    r"""^[ \t]*(?:print[ \t]+["'%\w]|exec[ \t]+["'\w]|except[ \t]+[\w.]+[ \t]*,|raise[ \t]+\w+[ \t]*,)"""
    r"""|<>|`\w+`|\bur['"]|\b\d+[lL]\b""",
    re.MULTILINE,
)


class NotReadError(Exception):
    """A file cannot be checked; the message says why, in a few words."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclasses.dataclass(frozen=True, slots=True)
class TextFile:
    """The text of a file, without the byte order mark that it begins with.

    Attributes:
        text: with the line ends of the file.
        mark: the byte order mark, or nothing.
    """

    text: str
    mark: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the file."""
        return self.mark + self.text.encode("utf-8")


def read_bytes(path: str) -> bytes:
    """The bytes of a file.

    Raises:
        NotReadError: it cannot be opened.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotReadError(f"cannot be opened: {error.strerror or error}") from error
    except ValueError as error:  # a null byte in the name
        raise NotReadError(f"cannot be opened: {error}") from error


def digest_of(content: bytes) -> bytes:
    """What tells one content from another."""
    return hashlib.blake2b(content, digest_size=16).digest()


def decode(content: bytes, *, is_python: bool = True) -> TextFile:
    """The text in the bytes of a file.

    Raises:
        NotReadError: it is not UTF-8, or holds what no source holds.
    """
    mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
    content = content[len(mark) :]
    if b"\0" in content:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or content.count(b"\0") * 3 > len(
            content
        ):
            raise NotReadError("is not UTF-8 (UTF-16, it seems)")
        raise NotReadError("holds a null byte", content.count(b"\n", 0, content.index(b"\0")) + 1)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        declared = _declared(content) if is_python else ""
        where = content.count(b"\n", 0, error.start) + 1
        raise NotReadError(f"is not UTF-8{f' ({declared})' if declared else ''}", where) from error
    if is_python and not text.isascii() and (declared := _declared(content)):
        raise NotReadError(f"is not UTF-8 ({declared})")
    return TextFile(text, mark)


def _declared(content: bytes) -> str:
    """The encoding that a source declares in one of its first two lines, if that is not UTF-8."""
    head = b"".join(line if line.lstrip().startswith(b"#") else b"\n" for line in content.splitlines(True)[:2])
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(head).readline)[0]
    except SyntaxError:
        return "of an encoding that Python does not know" if b"coding" in head else ""
    return "" if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig") else encoding


def explain_syntax_error(error: BaseException, text: str) -> NotReadError:
    """What is said of a source that cannot be parsed."""
    if isinstance(error, (RecursionError, MemoryError)):
        return NotReadError("is nested too deeply to be parsed")
    if not isinstance(error, SyntaxError):  # ValueError: null bytes, on some versions; surrogates
        return NotReadError(f"cannot be parsed: {' '.join(str(error).split())}")
    message = " ".join((error.msg or "invalid syntax").split())
    line = error.lineno or 0
    if "too many nested" in message or "too many levels" in message or "too complex" in message:
        return NotReadError("is nested too deeply to be parsed", line)
    near = "\n".join(text.split("\n")[max(0, line - 1) : line])
    if any(each in message for each in _PYTHON_2_MESSAGES) or _PYTHON_2.search(near):
        return NotReadError("is Python 2, it seems", line)
    return NotReadError(f"cannot be parsed: {message}", line)
