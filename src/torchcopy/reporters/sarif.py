"""Findings as SARIF 2.1.0, the format in which code scanners and editors exchange them."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath
from typing import Any

from .. import _version
from ..semantics.codes import CODES
from ..semantics.codes.code import Code
from .diagnostics import Diagnostic, codes_of, level_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """A SARIF log with one run, as plain data. Its rules are torchcopy's codes, whether found or not."""
    known = {code.code: code for code in CODES}
    codes = [*known, *(code for code in codes_of(diagnostics) if code not in known)]
    rules = {code: at for at, code in enumerate(codes)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "torchcopy",
                        "version": _version.__version__,
                        "rules": [_rule(code, known.get(code)) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(diagnostic, rules) for diagnostic in diagnostics],
            }
        ],
    }


def _rule(code: str, known: Code | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": code, "defaultConfiguration": {"level": level_of(code)}}
    if known is None:  # of a report that a later torchcopy has written
        return rule
    rule["defaultConfiguration"]["enabled"] = known.on
    return rule | {
        "name": "".join(word.capitalize() for word in known.name.split("-")),
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.story},
        "help": {"text": f"{known.fix}\n\n`torchcopy explain {code}` tells more."},
        "properties": {"tags": [known.family]},
    }


def _result(diagnostic: Diagnostic, rules: dict[str, int]) -> dict[str, Any]:
    text = f"{diagnostic.message}\nFix: {diagnostic.fix}" if diagnostic.fix else diagnostic.message
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rules[diagnostic.code],
        "level": diagnostic.level,
        "message": {"text": text},
        "locations": [_location(diagnostic)] if diagnostic.path else [],
        "occurrenceCount": max(1, diagnostic.count),
    }
    related = [
        {**_location(other), "id": at, "message": {"text": other.message}}
        for at, other in enumerate(diagnostic.related, 1)
        if other.path
    ]
    return result | {"relatedLocations": related} if related else result


def _location(diagnostic: Diagnostic) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": _artifact(diagnostic.path)}
    if diagnostic.line:
        place["region"] = {"startLine": diagnostic.line}
        if diagnostic.column is not None:
            place["region"]["startColumn"] = diagnostic.column
        if diagnostic.column is not None and diagnostic.end_column is not None:
            place["region"]["endColumn"] = diagnostic.end_column
    return {"physicalLocation": place}


def _artifact(path: str) -> dict[str, str]:
    """A URI: absolute for what lies outside of the working directory, relative to the checkout for the rest."""
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    posix = PureWindowsPath(path).as_posix() if "\\" in path else path
    return {"uri": urllib.parse.quote(os.fsencode(posix)), "uriBaseId": "%SRCROOT%"}
