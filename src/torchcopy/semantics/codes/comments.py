"""Comments that silence findings: `# torchcopy: ignore[TC201]`, `# torchcopy: ignore` for all, `# noqa: TC201`."""

from __future__ import annotations

import dataclasses
import io
import re
import tokenize

_OURS = re.compile(r"#\s*torchcopy:\s*ignore(?![\w-])(?:\s*(?P<bracket>\[[^\[\]#]*\]?))?")
_BRACKET = re.compile(r"\[\s*([A-Z]+[0-9]*(?:[,\s]+[A-Z]+[0-9]*)*)[,\s]*\]", re.IGNORECASE)
_CODE = "[A-Z]+[0-9]+"
_NOQA = re.compile(rf"#\s*noqa(?::\s*({_CODE}(?:[,\s]+{_CODE})*))?", re.IGNORECASE)
_NAMING = re.compile(r"torchcopy:\s*ignore|noqa:[^\n#]*\bTC[0-9]", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class SilencingComment:
    """One such comment.

    Attributes:
        line: from 1 on.
        column: in characters, from 1 on.
        end_column: behind its last character.
        codes: the codes or the beginnings of codes that it silences; none stands for all.
        is_noqa: whether it is written `# noqa`, which other tools read too.
        text: the whole line that it is on.
        is_malformed: whether it begins as such a comment and names no codes where it should: it silences none.
    """

    line: int
    column: int
    end_column: int
    codes: tuple[str, ...]
    is_noqa: bool
    text: str
    is_malformed: bool = False

    def silences(self, code: str) -> bool:
        """Whether it silences findings with this code."""
        return not self.is_malformed and (not self.codes or code.startswith(self.codes))


def names_codes(text: str) -> bool:
    """Whether there may be such a comment in a source that is meant for torchcopy: found fast, in strings too."""
    if not ("torchcopy:" in text or "noqa" in text or "NOQA" in text):
        return False
    return _NAMING.search(text) is not None


def find_comments(text: str, *, noqa: bool = False) -> list[SilencingComment]:
    """The comments in a Python source, in order; none where it cannot be read as Python.

    Args:
        text: the source.
        noqa: whether `# noqa` counts too: without codes, or with one that begins with `TC`.
    """
    if "torchcopy:" not in text and not (noqa and "noqa" in text.lower()):
        return []
    found: list[SilencingComment] = []
    lines = io.StringIO(text, newline=None)  # any line end is read as a newline
    try:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                found += _in_comment(token, noqa=noqa)
    except (tokenize.TokenError, SyntaxError):
        return []
    return found


def _in_comment(token: tokenize.TokenInfo, *, noqa: bool) -> list[SilencingComment]:
    found = []
    if ours := _OURS.search(token.string):
        bracket = ours["bracket"]
        named = _BRACKET.fullmatch(bracket) if bracket else None
        comment = _comment(token, ours, _split(named[1] if named else None), is_noqa=False)
        found.append(dataclasses.replace(comment, is_malformed=bool(bracket) and named is None))
    if noqa and (other := _NOQA.search(token.string)):
        codes = _split(other[1])
        tc = tuple(code for code in codes if code.startswith("TC"))
        if tc or not codes:
            found.append(_comment(token, other, tc, is_noqa=True))
    return found


def _comment(
    token: tokenize.TokenInfo, found: re.Match[str], codes: tuple[str, ...], *, is_noqa: bool
) -> SilencingComment:
    line, column = token.start
    return SilencingComment(
        line=line,
        column=column + found.start() + 1,
        end_column=column + found.end() + 1,
        codes=codes,
        is_noqa=is_noqa,
        text=token.line.rstrip("\n"),
    )


def _split(codes: str | None) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[,\s]+", (codes or "").strip().upper())))
