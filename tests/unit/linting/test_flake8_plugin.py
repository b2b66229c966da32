"""The plugins as flake8 uses them: named in the package's metadata, made with what it has read of a file."""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

from torchcopy import flake8_plugin
from torchcopy.semantics.codes import CODES

TEXT = "def f(t, w):\n    é = t.clone().detach()\n    return é, t.clone().detach()  # torchcopy: ignore\n"


def rows(plugin, text=TEXT):
    return [
        (line, column, message[:5])
        for line, column, message, _ in plugin(ast.parse(text), text.splitlines(True), "x.py").run()
    ]


def test_entry_points_lead_to_the_plugins():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    found = {}
    for name, target in project["entry-points"]["flake8.extension"].items():
        module, _, attribute = target.partition(":")
        found[name] = getattr(importlib.import_module(module), attribute)
    assert found == {"TC1": flake8_plugin.Hazards, "TC2": flake8_plugin.Waste, "TC3": flake8_plugin.Idioms}
    for name, plugin in found.items():
        assert plugin.codes == {code.code for code in CODES if code.linted and code.code.startswith(name)}


def test_findings_are_told_with_columns_from_0():
    assert rows(flake8_plugin.Waste) == [(2, 8, "TC203")]
    assert rows(flake8_plugin.Hazards) == []


def test_noqa_is_left_to_flake8():
    text = TEXT.replace("# torchcopy: ignore", "# noqa: TC203")
    assert rows(flake8_plugin.Waste, text) == [(2, 8, "TC203"), (3, 14, "TC203")]  # for --disable-noqa


def test_only_idioms_are_off():
    off = [
        getattr(each, "off_by_default", False)
        for each in (flake8_plugin.Hazards, flake8_plugin.Waste, flake8_plugin.Idioms)
    ]
    assert off == [False, False, True]


def test_the_plugin_is_part_of_what_is_told():
    ((*_, plugin),) = flake8_plugin.Waste(ast.parse(TEXT), TEXT.splitlines(True), "x.py").run()
    assert plugin is flake8_plugin.Waste
    assert (plugin.name, bool(plugin.version)) == ("torchcopy", True)


def test_what_is_nested_too_deeply_is_left_to_flake8(monkeypatch):
    def deep(*_, **__):
        raise flake8_plugin.NotReadError("is nested too deeply to be checked")

    monkeypatch.setattr(flake8_plugin, "check", deep)
    with pytest.raises(StopIteration):
        next(flake8_plugin.Waste(ast.parse(TEXT), TEXT.splitlines(True), "x.py").run())
