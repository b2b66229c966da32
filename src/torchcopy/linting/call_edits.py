"""Edits of calls: a method taken out of a chain, an argument added."""

from __future__ import annotations

import ast

from .findings import Edit
from .source import Source


def without_method(source: Source, call: ast.Call) -> Edit | None:
    """Takes `.name(…)` out of `value.name(…)`, with the line it stands on, where no comment would go."""
    if not isinstance(call.func, ast.Attribute):
        return None
    text, end = source.text, source.end(call)
    name = source.end(call.func) - len(call.func.attr)
    start = text.rfind(".", 0, name)
    if start < source.end(call.func.value) or text[start + 1 : name].strip() or "#" in text[name:end]:
        return None
    before = len(text[:start].rstrip())
    line = text[text.rfind("\n", 0, before) + 1 : before]
    if before >= source.end(call.func.value) and "#" not in line and not line.endswith("\\"):
        start = before
    elif "\n" in text[before:start]:
        return None
    return Edit(start, end, "")


def with_argument(source: Source, call: ast.Call, written: str) -> Edit | None:
    """Puts `name=value` behind the arguments of a call; nothing where a comment stands at its end."""
    given = [*call.args, *(each.value for each in call.keywords)]
    close = source.end(call) - 1
    if source.text[close] != ")":
        return None
    if not given:
        return Edit(close, close, written)
    last = max(source.end(each) for each in given)
    tail = source.text[last:close]
    if "#" in tail:
        return None
    comma = tail.rfind(",")
    if comma >= 0:
        return Edit(last + comma + 1, last + comma + 1, f" {written}")
    at = close - (len(tail) - len(tail.rstrip()))
    return Edit(at, at, f", {written}")


def renamed_call(source: Source, call: ast.Call, written: str) -> Edit | None:
    """Puts `written` where a method's name and its arguments are."""
    if not isinstance(call.func, ast.Attribute):
        return None
    start, end = source.end(call.func) - len(call.func.attr), source.end(call)
    return None if "#" in source.text[start:end] else Edit(start, end, written)


def unwrapped_call(source: Source, call: ast.Call) -> tuple[Edit, Edit] | None:
    """Leaves of `name(x)` what is between its parentheses; nothing where a comment would go."""
    if len(call.args) != 1 or call.keywords:
        return None
    opening = source.text.find("(", source.end(call.func))
    start, end = source.start(call), source.end(call)
    last = source.end(call.args[0])
    tail = source.text[last : end - 1]
    if opening < 0 or "#" in source.text[start : source.start(call.args[0])] or "#" in tail:
        return None
    closing = end - 1
    if tail.rstrip().endswith(","):
        closing = last + tail.rfind(",")
    return Edit(start, opening + 1, ""), Edit(closing, end, "")
