"""All codes, and how they are found: by code, by name, by the beginning of a code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..._errors import InputError
from . import (
    tc101_stale_state_dict,
    tc102_silent_overwrite,
    tc103_noticed_overwrite,
    tc104_unsynchronized_read,
    tc105_kept_graph,
    tc106_shared_with_numpy,
    tc107_restore_from_itself,
    tc108_copy_reads_original,
    tc109_shallow_copy,
    tc110_view_keeps_storage,
    tc201_redundant_copy,
    tc202_double_copy,
    tc203_clone_then_detach,
    tc204_tensor_of_tensor,
    tc205_repeated_conversion,
    tc207_host_sync_in_loop,
    tc208_deepcopy_in_loop,
    tc209_parameter_loop,
    tc301_data_attribute,
)
from .code import Code

CODES: tuple[Code, ...] = (
    # hazards: results are wrong
    tc101_stale_state_dict.CODE,
    tc102_silent_overwrite.CODE,
    tc103_noticed_overwrite.CODE,
    tc104_unsynchronized_read.CODE,
    tc105_kept_graph.CODE,
    tc106_shared_with_numpy.CODE,
    tc107_restore_from_itself.CODE,
    tc108_copy_reads_original.CODE,
    tc109_shallow_copy.CODE,
    tc110_view_keeps_storage.CODE,
    # waste: time and memory
    tc201_redundant_copy.CODE,
    tc202_double_copy.CODE,
    tc203_clone_then_detach.CODE,
    tc204_tensor_of_tensor.CODE,
    tc205_repeated_conversion.CODE,
    tc207_host_sync_in_loop.CODE,
    tc208_deepcopy_in_loop.CODE,
    tc209_parameter_loop.CODE,
    # idioms: discouraged
    tc301_data_attribute.CODE,
)
"""Every code, in their order."""

_BY_NAME = {key: code for code in CODES for key in (code.code, code.name.upper())}
_LONGEST_SHOWN = 40


def find_code(code: str) -> Code:
    """The code called `code`: `TC101`, or by its name, `stale-state-dict`; case does not matter.

    Raises:
        InputError: there is none.

    Example:
        >>> from torchcopy.semantics.codes import find_code
        >>> find_code("TC101").name
        'stale-state-dict'
    """
    key = _key(code)
    if key in _BY_NAME:
        return _BY_NAME[key]
    raise InputError(f"there is no code {_shown(code)}: {_hint(key)}")


def match_codes(prefixes: Iterable[str]) -> tuple[Code, ...]:
    """The codes that begin with one of `prefixes`, or are named so; each once, in their order.

    What `--select` and `--ignore` take: `["TC1", "TC204"]`, or with commas, `"TC1,TC204"`. `TC` is all of them,
    those that are off by default too.

    Raises:
        InputError: no code begins with one of them.

    Example:
        >>> from torchcopy.semantics.codes import match_codes
        >>> [code.code for code in match_codes("TC11,TC3")]
        ['TC110', 'TC301']
    """
    found: set[Code] = set()
    for prefix in _split(prefixes):
        key = _key(prefix)
        matching = {_BY_NAME[key]} if key in _BY_NAME else {c for c in CODES if _is_prefix(key, c.code)}
        if not matching:
            raise InputError(f"no code begins with {_shown(prefix)}: {_hint(key)}")
        found |= matching
    return tuple(code for code in CODES if code in found)


def _is_prefix(key: str, code: str) -> bool:
    return len(key) >= len("TC") and code.startswith(key)


def _split(prefixes: Iterable[str]) -> list[str]:
    if isinstance(prefixes, str):
        prefixes = [prefixes]
    if not isinstance(prefixes, Iterable):
        raise InputError(f"codes are a list such as ['TC1', 'TC204']; got {_shown(prefixes)}")
    parts: list[str] = []
    for prefix in prefixes:
        pieces = prefix.split(",") if isinstance(prefix, str) else [prefix]
        parts += [piece for piece in pieces if piece] or [""]  # `TC1,` is TC1, and nothing at all is refused
    return parts


def _key(code: object) -> str:
    if not isinstance(code, str):
        raise InputError(f"a code is a text such as 'TC101'; got {_shown(code)}")
    return code.strip().upper()


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _hint(key: str) -> str:
    key = f"TC{key}" if key[:1].isdigit() else key[:_LONGEST_SHOWN]
    for length in range(len(key), len("TC"), -1):
        alike = [code.code for code in CODES if _is_prefix(key[:length], code.code)]
        if alike:
            return f"did you mean {alike[0]!r}?" if len(alike) == 1 else f"there are {', '.join(alike)}"
    close = difflib.get_close_matches(key, [code.name.upper() for code in CODES], n=1)
    return f"did you mean {close[0].lower()!r}?" if close else "`torchcopy explain` lists them all"
