"""Imports go one way, and private PyTorch functions are named in one package only."""

import ast
import sys
from pathlib import Path

import pytest

import torchcopy

PACKAGE = Path(torchcopy.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
# What each part may import beside itself and the private modules at the top.
MAY_IMPORT = {
    "semantics": set(),
    "copying": {"semantics"},
    "bench": {"semantics", "copying"},
    "history": {"semantics", "copying"},
    "auditing": {"semantics", "copying"},
    "linting": {"semantics"},
    "integrations": {"history"},
    "reporters": {"semantics", "copying", "bench", "history", "auditing", "linting"},
    "commands": {"reporters", "semantics", "copying", "bench", "history", "auditing", "linting"},
}
REPORT_LIBRARIES = {"typer", "rich", "jinja2", "matplotlib"}
PRIVATE = {"_lazy_clone", "_is_cow_tensor", "_data_address", "_storage_id", "_unsafe_set_version_counter"}
PRIVATE |= {"_weak_ref", "_free_weak_ref", "_expired", "_new_with_weak_ptr", "_neg_view"}
PRIVATE |= {"_foreach_copy_", "_foreach_lerp_", "_foreach_clone", "_len_torch_dispatch_stack"}
PRIVATE |= {"_get_sequence_nr", "_current_autograd_node", "_sequence_nr", "_get_dispatch_stack_at"}
PRIVATE |= {"_storage_Use_Count", "peek_interpreter_stack", "_get_tracing_state", "_is_profiler_enabled"}


def _imports(path):
    """The parts of torchcopy and the other libraries that a module imports, wherever in it."""
    parts, libraries = set(), set()
    package = ("torchcopy", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *filter(None, [node.module])))
            names = [f"{stem}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "torchcopy":
                parts.add(rest[0] if rest else "")
            else:
                libraries.add(first)
    return parts, libraries


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    own = path.relative_to(PACKAGE).parts[0]
    if own not in MAY_IMPORT:
        return
    parts, libraries = _imports(path)
    rooms = {part for part in parts if part in MAY_IMPORT}
    assert rooms - {own} <= MAY_IMPORT[own]
    if own in ("semantics", "copying", "bench", "history", "auditing", "linting"):
        assert not libraries & REPORT_LIBRARIES
    if own == "linting":
        assert libraries <= {*sys.stdlib_module_names}


def _private_names(path):
    """The private functions of PyTorch that a module calls."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & PRIVATE


def test_private_functions_are_called_in_one_package():
    home = PACKAGE / "_torch_private"
    assert {path for path in MODULES if path.parent != home and _private_names(path)} == set()
    assert set().union(*map(_private_names, home.glob("*.py"))) == PRIVATE


def test_every_public_name_is_there_and_documented():
    assert len(set(torchcopy.__all__)) == len(torchcopy.__all__)
    for name in torchcopy.__all__:
        assert getattr(torchcopy, name).__doc__, name


def test_the_names_for_type_checkers_are_the_public_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    listed = {(node.module, alias.name) for node in checked.body for alias in node.names}
    assert listed == {(module, name) for name, module in torchcopy._HOMES.items()}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'torchcopy' has no attribute 'clone'"):
        _ = torchcopy.clone
    assert set(torchcopy.__all__) <= set(dir(torchcopy))
