"""Files that cannot be checked are told in one line each, and the rest is."""

import os
import warnings
from pathlib import Path

import pytest
from lint_files import BAD, places, run, write

from torchcopy._errors import InputError

UNREADABLE = {
    "latin": (b"x = '\xe9'\n", "is not UTF-8", 1),
    "declared": (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "is not UTF-8 (iso-8859-1)", 2),
    "utf16": ("x = 1\n".encode("utf-16"), "is not UTF-8 (UTF-16, it seems)", 0),
    "null": (b"x = 1\ny = 2\0\n", "holds a null byte", 2),
    "print_statement": (b"print 'a'\n", "is Python 2, it seems", 1),
    "except_comma": (b"try:\n    pass\nexcept E, e:\n    pass\n", "is Python 2, it seems", 3),
    "octal": (b"x = 0777\n", "is Python 2, it seems", 1),
    "not_equal": (b"if a <> b:\n    pass\n", "is Python 2, it seems", 1),
    "raise_comma": (b"raise E, 'x'\n", "is Python 2, it seems", 1),
    "syntax": (b"def f(:\n", "cannot be parsed: invalid syntax", 1),
    "unclosed": (b"x = (1,\n", "cannot be parsed: '(' was never closed", 1),
    "brackets": (b"(" * 400, "is nested too deeply to be parsed", 1),
    "minus": (b"-" * 50_000 + b"1", "is nested too deeply to be parsed", 0),
    "attributes": (b"x" + b".a" * 50_000, "is nested too deeply to be parsed", 0),
    "sum": (b"1" + b"+1" * 50_000, "is nested too deeply to be parsed", 0),
    "data": (b"x = [\n" + b"    1,\n" * 430_000 + b"]\n", "is too long (3,010,008 characters)", 0),
    "indentation": ("".join(" " * n + "if 1:\n" for n in range(120)).encode(), "is nested too deeply", 101),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_checked_is_skipped(name, tmp_path):
    content, reason, line = UNREADABLE[name]
    report = run(write(tmp_path, broken=content, fine=BAD))
    assert places(report) == [(2, "TC203")]
    (skipped,) = report.skipped
    assert skipped.reason.startswith(reason)
    assert "\n" not in skipped.reason
    assert skipped.line == line
    assert not skipped.is_error
    assert (report.files_read, report.files_skipped) == (1, 1)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + BAD.encode(),
        b"# -*- coding: utf8 -*-\n# \xc3\xa9\n" + BAD.encode(),
        b"# -*- coding: latin-1 -*-\n" + BAD.encode(),
        BAD.replace("\n", "\r\n").encode(),
        BAD.replace("\n", "\r").encode(),
        BAD.replace("    ", "\t").encode(),
        b"x = '\\d'\n1 is 1\n" + BAD.encode(),
        BAD.rstrip("\n").encode(),
    ],
    ids=["mark", "cookie", "ascii_as_latin", "crlf", "cr", "tabs", "syntax_warnings", "no_last_newline"],
)
def test_a_file_of_any_shape_is_checked(content, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = run(write(tmp_path, one=content))
    assert [finding.code for finding in report.findings] == ["TC203"]
    assert report.findings[0].text.strip() == "return t.clone().detach()"
    assert report.skipped == ()


def test_an_empty_file_is_read(tmp_path):
    report = run(write(tmp_path, empty=""))
    assert (report.files_read, report.findings, report.skipped) == (1, (), ())


def test_a_file_that_may_not_be_opened_is_skipped(tmp_path, monkeypatch):
    write(tmp_path, secret=BAD)

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    report = run(tmp_path)
    assert [each.reason for each in report.skipped] == ["cannot be opened: Permission denied"]


def test_links_to_folders_are_not_followed_and_dangling_ones_are_no_files(tmp_path):
    write(tmp_path, one=BAD)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.py").symlink_to("nowhere")
    assert run(tmp_path).files_read == 1


def test_a_fault_of_a_rule_hides_nothing_else(tmp_path, monkeypatch):
    from torchcopy.linting import rules

    class Broken:
        CODE, NEEDS = "TC105", ("clone",)

        @staticmethod
        def check(facts):
            raise ZeroDivisionError("oh")

    every = rules.all_rules()
    monkeypatch.setattr(rules, "all_rules", lambda: (Broken, *every))
    report = run(write(tmp_path, one=BAD))
    assert places(report) == [(2, "TC203")]
    (fault,) = report.skipped
    assert fault.is_error
    assert fault.reason == "a fault of TC105: ZeroDivisionError: oh"


def test_a_folder_that_may_not_be_opened_is_told(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    real = os.scandir

    def refuse(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("os.scandir", refuse)
    report = run(write(tmp_path, one=BAD))
    told = ("is a folder that cannot be opened: Permission denied", False)
    assert [(Path(each.path).name, each.reason, each.is_error) for each in report.skipped] == [("locked", *told)]
    assert (report.files_read, report.files_skipped) == (1, 0)


def test_a_named_file_that_may_not_be_opened_is_refused(tmp_path, monkeypatch):
    file = write(tmp_path, secret=BAD) / "secret.py"
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(InputError, match=r"cannot open '.*secret\.py': Permission denied"):
        run(file)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    write(tmp_path, one=BAD)
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "pyproject.toml")
    assert run(tmp_path).files_read == 1
    with pytest.raises(InputError, match="it is no regular file"):
        run(tmp_path / "pipe.py")
