"""Which files are checked for which codes."""

import re

import pytest
from lint_files import BAD, run, write

from torchcopy import InputError
from torchcopy.linting.globs import PathPatterns
from torchcopy.linting.settings import DEFAULT_CODES, LINTED_CODES, SettingsFinder


def settings(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f"[tool.torchcopy.lint]\n{text}\n")
    return folder


def codes(folder, **options):
    return SettingsFinder(**options).of_folder(str(folder)).codes


def test_without_settings_all_is_looked_for_but_what_is_off(tmp_path):
    assert codes(tmp_path) == DEFAULT_CODES == LINTED_CODES - {"TC301"}


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('select = ["TC1"]', {}, {code for code in LINTED_CODES if code.startswith("TC1")}),
        ('select = ["TC203", "TC301"]', {}, {"TC203", "TC301"}),
        ('select = ["TC3"]', {}, {"TC301"}),
        ('select = ["TC"]', {}, LINTED_CODES),
        ('select = ["stale-state-dict"]', {}, {"TC101"}),
        ("select = []", {}, set()),
        ('ignore = ["TC1"]', {}, {code for code in DEFAULT_CODES if not code.startswith("TC1")}),
        ('ignore = ["TC103"]', {}, DEFAULT_CODES),
        ('select = ["TC1"]\nignore = ["TC1"]', {"select": ["TC101"]}, {"TC101"}),
        ('select = ["TC101", "TC203"]', {"ignore": ["TC203"]}, {"TC101"}),
        ("", {"select": ["TC2"], "ignore": ["TC203"]}, {c for c in DEFAULT_CODES if c[2] == "2"} - {"TC203"}),
    ],
)
def test_codes(text, options, expected, tmp_path):
    assert codes(settings(tmp_path, text), **options) == expected


def test_the_nearest_file_with_a_table_counts(tmp_path):
    settings(tmp_path, 'select = ["TC1"]')
    settings(tmp_path / "a", 'select = ["TC203"]')
    (tmp_path / "a" / "b").mkdir()
    (tmp_path / "a" / "b" / "pyproject.toml").write_text("[tool.torchcopy]\n[tool.other.lint]\nselect = 3\n")
    assert codes(tmp_path / "a" / "b") == {"TC203"}
    assert "TC101" in codes(tmp_path)


def test_settings_hold_for_the_files_below_them(tmp_path):
    settings(tmp_path, 'per-file-ignores = { "tests/**" = ["TC2"], "*_old.py" = ["TC"] }\nexclude = ["legacy"]')
    for folder in ("tests/deep", "legacy", "src"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, one=BAD, one_old=BAD)
    found = run(tmp_path)
    assert [(each.path, each.code) for each in found.findings] == [(str(tmp_path / "src" / "one.py"), "TC203")]
    assert found.files_read == 4
    assert run(tmp_path / "tests" / "deep" / "one.py").findings == ()


@pytest.fixture
def excluding(tmp_path):
    """A project whose folder `legacy` and files `*_pb2.py` are excluded, with a folder that nobody owns."""
    settings(tmp_path, 'exclude = ["legacy", "*_pb2.py"]')
    for folder in ("legacy/deep", "src", "src/.venv"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, one=BAD, one_pb2=BAD)
    return tmp_path


@pytest.mark.parametrize(
    ("named", "expected", "forced"),
    [
        (".", 1, 1),
        ("src", 1, 1),
        ("src/one.py", 1, 1),
        ("src/one_pb2.py", 1, 0),
        ("legacy/deep/one.py", 1, 0),
        ("legacy", 1, 0),  # not `one_pb2.py`, which a pattern fits itself
        ("legacy/deep", 1, 0),
        ("src/.venv", 1, 0),
        ("src/.venv/one.py", 1, 0),
    ],
)
def test_what_is_named_is_checked_though_it_is_excluded(named, expected, forced, excluding):
    assert run(excluding / named).files_read == expected
    assert run(excluding / named, force_exclude=True).files_read == forced


def test_folders_above_the_project_are_not_left_out(tmp_path, monkeypatch):
    (tmp_path / "build").mkdir()
    file = write(tmp_path / "build", one=BAD) / "one.py"
    monkeypatch.chdir(tmp_path / "build")
    assert run(file, force_exclude=True).files_read == 1
    monkeypatch.chdir(tmp_path)
    assert run(file, force_exclude=True).files_read == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["TC1"]', r"has no `selct`: did you mean `select`\?"),
        ("x = 1", "there are `select`, `ignore`, `per-file-ignores`, `exclude`"),
        ('select = "TC1"', r"`select` is a list of texts .* got 'TC1'"),
        ("exclude = [3]", "`exclude` is a list of texts"),
        ('ignore = ["TC9"]', "`ignore`: no code begins with 'TC9'"),
        ('select = ["TC103"]', "no lint looks for TC103: `torchcopy audit` does"),
        ('per-file-ignores = ["TC1"]', "`per-file-ignores` is a table"),
        ('per-file-ignores = { a = ["TC9"] }', "`per-file-ignores` of 'a': no code begins with 'TC9'"),
        ("select = [", "cannot be read"),
    ],
)
def test_bad_settings_are_refused_with_their_file(text, message, tmp_path):
    write(settings(tmp_path, text), one=BAD)
    with pytest.raises(InputError, match=message) as raised:
        run(tmp_path)
    assert str(tmp_path / "pyproject.toml") in str(raised.value)


def test_settings_that_may_not_be_opened_are_refused(tmp_path, monkeypatch):
    write(settings(tmp_path, 'select = ["TC1"]'), one=BAD)

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(InputError, match=r"pyproject\.toml cannot be read: Permission denied"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[tool.torchcopy]\nlint = 3\n", "tool.torchcopy.lint"),
        ("[tool]\ntorchcopy = 3\n", "tool.torchcopy"),
        ("tool = 3  # torchcopy\n", "tool"),
    ],
)
def test_a_table_that_is_none(text, name, tmp_path):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(InputError, match=rf"`{re.escape(name)}` is a table; got 3"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "fits", "not_fits"),
    [
        ("legacy", ["legacy", "legacy/a.py", "src/legacy/b/c.py"], ["legacy2/a.py", "src/a_legacy.py"]),
        ("*_pb2.py", ["x_pb2.py", "a/b/x_pb2.py"], ["x_pb2.pyi", "x_pb3.py"]),
        ("src/gen", ["src/gen", "src/gen/a.py"], ["a/src/gen/b.py", "src/general.py"]),
        ("src/*.py", ["src/a.py"], ["src/b/a.py", "a/src/a.py"]),
        ("tests/**", ["tests/a.py", "tests/b/c.py"], ["tests", "src/tests/a.py"]),
        ("**/gen/*.py", ["gen/a.py", "a/b/gen/c.py"], ["gen/a/b.py"]),
        ("a?[bc].py", ["axb.py", "d/ayc.py"], ["ab.py", "axd.py"]),
        ("./src/", ["src/a.py"], ["b/src2/a.py"]),
        ("x[!a].py", ["xb.py"], ["xa.py"]),
        ("(a+b).py", ["(a+b).py"], ["aab.py"]),
        ("x[a-c].py", ["xb.py"], ["x-.py", "xd.py"]),
        ("x[c-a].py", [], ["xb.py", "x[c-a].py"]),
        ("x[].py", [], ["x.py", "xa.py"]),
        ("x[a&&~^].py", ["x&.py", "x^.py"], ["xb.py"]),
        ("x[[].py", ["x[.py"], ["xa.py"]),
        ("x[.py", ["x[.py"], ["xa.py"]),
    ],
)
def test_patterns(pattern, fits, not_fits):
    patterns = PathPatterns((pattern,))
    assert [path for path in fits if not patterns.fit(path)] == []
    assert [path for path in not_fits if patterns.fit(path)] == []


# --- files ---------------------------------------------------------------------------------------------------


def test_folders_that_are_nobodys_own_are_left_out_unless_they_are_named(tmp_path):
    for folder in (".git", ".venv/lib", "build", "pkg", "node_modules", "lib/site-packages/pkg"):
        (tmp_path / folder).mkdir(parents=True)
        write(tmp_path / folder, one=BAD)
    (tmp_path / "notes.txt").write_text(BAD)
    assert [each.path for each in run(tmp_path).findings] == [str(tmp_path / "pkg" / "one.py")]
    assert run(tmp_path / "lib" / "site-packages" / "pkg").files_read == 1
    assert run(tmp_path / ".venv").files_read == 1


def test_a_file_that_is_named_twice_is_checked_once_and_shown_from_where_one_is(tmp_path, monkeypatch):
    write(tmp_path, one=BAD, two=BAD)
    monkeypatch.chdir(tmp_path)
    report = run("two.py", ".", tmp_path / "two.py", "./one.py")
    assert [each.path for each in report.findings] == ["one.py", "two.py"]


@pytest.mark.parametrize("given", ["nothere.py", "", "a\0b", "notes.txt"])
def test_a_path_that_cannot_be_checked_is_refused(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"cannot open|cannot check|is no path"):
        run(given)
