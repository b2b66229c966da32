"""The rules: one file each, found by its name; nothing lists them by hand.

A rule is a module `tcNNN_<name>` with `CODE`, `NEEDS` and `check(facts)`: see `inference.file_facts`. With
`GIVES_WAY_TO` it names codes that are told in its place where their fix mends what it has found too.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Protocol, cast

from ..findings import Finding
from ..inference.file_facts import FileFacts


class Rule(Protocol):
    """What a module of this package offers.

    Attributes:
        CODE: of the findings it reports.
        NEEDS: a file is given to `check` only if one of these texts is in it.
    """

    CODE: str
    NEEDS: tuple[str, ...]

    def check(self, facts: FileFacts) -> Iterator[Finding]:
        """The findings in one file."""


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of this package, by its code."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__) if each.name.startswith("tc"))
    return tuple(cast(Rule, importlib.import_module(f"{__name__}.{name}")) for name in names)


@functools.cache
def gives_way(code: str) -> frozenset[str]:
    """The codes that are told in place of this one where they change the same characters."""
    return next(
        (frozenset(getattr(rule, "GIVES_WAY_TO", ())) for rule in all_rules() if code == rule.CODE), frozenset()
    )
