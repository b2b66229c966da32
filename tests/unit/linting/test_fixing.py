"""Fixes change what they name and nothing else; what they are written over is what was read."""

import ast
import os
import stat

import pytest
from lint_files import BAD, GOOD, fix, places, run, write

from torchcopy.linting import fixing, one_file
from torchcopy.linting.findings import Edit, Fix
from torchcopy.linting.fix_options import FixOptions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BAD.encode(), GOOD.encode()),
        (BAD.replace("\n", "\r\n").encode(), GOOD.replace("\n", "\r\n").encode()),
        (b"\xef\xbb\xbf" + BAD.encode(), b"\xef\xbb\xbf" + GOOD.encode()),
        (f"# coding: utf-8\n'é\x0c😀'\n{BAD}".encode(), f"# coding: utf-8\n'é\x0c😀'\n{GOOD}".encode()),
        (BAD.replace("    ", "\t").encode(), GOOD.replace("    ", "\t").encode()),
        (BAD.rstrip().encode(), GOOD.rstrip().encode()),
        (f"{BAD}# end  \n\n\n\t".encode(), f"{GOOD}# end  \n\n\n\t".encode()),
        (b"x = (t.clone(\r\n  # why\r\n).detach())", b"x = (t.detach().clone(\r\n  # why\r\n))"),
    ],
    ids=["lf", "crlf", "mark", "wide", "tabs", "no_last_newline", "blanks", "comment"],
)
def test_nothing_but_the_fix_changes(before, after, tmp_path):
    path = write(tmp_path, one=before) / "one.py"
    report = fix(path)
    assert path.read_bytes() == after
    assert (report.findings, report.fixed[0].codes) == ((), ("TC203",))
    again = fix(path)
    assert path.read_bytes() == after
    assert again.fixed == ()


def test_what_is_only_shown_is_not_written(tmp_path):
    path = write(tmp_path, one=BAD) / "one.py"
    report = run(path, fix_options=FixOptions("shown"))
    assert path.read_text() == BAD
    assert [(text.before, text.after) for text in report.fixed[0].texts] == [(BAD, GOOD)]


def test_rights_and_links_stay(tmp_path):
    real = write(tmp_path, real=BAD) / "real.py"
    real.chmod(0o754)
    link = tmp_path / "link.py"
    link.symlink_to("real.py")
    fix(link)
    assert link.is_symlink()
    assert real.read_text() == GOOD
    assert stat.S_IMODE(real.stat().st_mode) == 0o754
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_a_write_protected_file_is_told_and_left(tmp_path, monkeypatch):
    path = write(tmp_path, one=BAD) / "one.py"
    monkeypatch.setattr("os.access", lambda _, mode: mode != os.W_OK)
    report = fix(path)
    assert path.read_text() == BAD
    assert places(report) == [(2, "TC203")]
    (told,) = report.skipped
    assert told.is_error
    assert "was not fixed" in told.reason
    assert "write-protected" in told.reason
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_somebody_else_writes_meanwhile_is_left(tmp_path, monkeypatch):
    path = write(tmp_path, one=BAD) / "one.py"
    real = one_file.fix

    def slow(*args, **options):
        path.write_text("# newer\n")
        return real(*args, **options)

    monkeypatch.setattr(one_file, "fix", slow)
    report = fix(path)
    assert path.read_text() == "# newer\n"
    assert "has changed while it was checked" in report.skipped[0].reason
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path, monkeypatch):
    path = write(tmp_path, one=BAD) / "one.py"

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torchcopy.linting.writing.shutil.copymode", full)
    report = fix(path)
    assert path.read_text() == BAD
    assert "No space left on device" in report.skipped[0].reason
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_written_is_on_the_disk_before_it_replaces_the_file(tmp_path, monkeypatch):
    path = write(tmp_path, one=BAD) / "one.py"
    synced = []

    def fsync(handle):
        synced.append((os.fstat(handle).st_size, path.read_text()))

    monkeypatch.setattr("os.fsync", fsync)
    fix(path)
    assert synced == [(len(GOOD), BAD)]
    assert path.read_text() == GOOD


def test_other_names_of_a_file_keep_what_it_was(tmp_path):
    path = write(tmp_path, one=BAD) / "one.py"
    (tmp_path / "other.txt").hardlink_to(path)
    fix(path)
    assert (path.read_text(), (tmp_path / "other.txt").read_text()) == (GOOD, BAD)


def test_a_silenced_finding_is_not_fixed(tmp_path):
    text = BAD.replace("detach()", "detach()  # torchcopy: ignore[TC203]")
    path = write(tmp_path, one=text) / "one.py"
    assert fix(path).fixed == ()
    assert path.read_text() == text


# --- rules that the tests make up -----------------------------------------------------------------------------


class Renaming:
    """Finds each `old` name; its fix is what the test wants."""

    CODE = "TC202"
    NEEDS = ("old",)

    def __init__(self, make):
        self.make = make

    def check(self, facts):
        source = facts.source
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Name) and node.id.startswith("old"):
                yield source.finding(self.CODE, f"{node.id} is old", node, fix=self.make(source, node))


@pytest.fixture
def rule(monkeypatch):
    def use(make):
        monkeypatch.setattr("torchcopy.linting.rules.all_rules", lambda: (Renaming(make),))

    return use


def test_fixes_that_overlap_are_made_one_round_after_the_other(tmp_path, rule):
    # Each wants its whole line, and renames one name in it.
    def whole_line(source, node):
        line = source.line_at(node.lineno)
        start = source.line_starts[node.lineno - 1]
        return Fix((Edit(start, start + len(line), line.replace(node.id, "new", 1)),))

    rule(whole_line)
    path = write(tmp_path, one="old1 + old2 + old3\nold4\n") / "one.py"
    report = fix(path)
    assert path.read_text() == "new + new + new\nnew\n"
    assert report.fixed[0].codes == ("TC202",) * 4
    assert report.findings == ()


def test_a_fix_after_which_the_file_would_not_parse_is_not_made(tmp_path, rule):
    rule(lambda source, node: Fix((source.replace(node, "(" if node.id == "old_bad" else "new"),)))
    path = write(tmp_path, one="a = old1\nb = old_bad\nc = old2\n") / "one.py"
    report = fix(path)
    assert path.read_text() == "a = new\nb = old_bad\nc = new\n"
    assert places(report) == [(2, "TC202")]


def test_fixes_without_an_end_end(tmp_path, rule):
    rule(lambda source, node: Fix((source.replace(node, f"{node.id}x"),)))
    path = write(tmp_path, one="old\n") / "one.py"
    report = fix(path)
    assert path.read_text() == f"old{'x' * fixing._MOST_ROUNDS}\n"
    assert [(each.reason[:26], each.is_error) for each in report.skipped] == [("was not fixed to the end: ", True)]


def test_fixes_that_undo_each_other_end_at_once(tmp_path, rule):
    other = {"old_a": "old_b", "old_b": "old_c", "old_c": "old_a"}
    rule(lambda source, node: Fix((source.replace(node, other[node.id]),)))
    path = write(tmp_path, one="old_a\n") / "one.py"
    report = fix(path)
    assert path.read_text() == "old_c\n"
    assert len(report.fixed[0].codes) == 2
    assert report.skipped[0].is_error


def test_a_long_chain_of_calls_is_fixed_to_its_end(tmp_path):
    text = f"import torch\n\n\ndef f(t: torch.Tensor):\n    return t{'.clone().detach()' * 60}\n"
    path = write(tmp_path, one=text) / "one.py"
    report = fix(path)
    first = path.read_text()
    assert report.skipped == ()
    assert (fix(path).fixed, path.read_text()) == ((), first)


def test_an_unsafe_fix_is_made_only_if_that_is_wanted_and_tells_what_may_change(tmp_path, rule):
    rule(lambda source, node: Fix((source.replace(node, "new"),), safe=False, note="the name"))
    path = write(tmp_path, one="x = 1\nold\n") / "one.py"
    report = fix(path)
    assert path.read_text() == "x = 1\nold\n"
    assert (report.findings[0].fixable, report.findings[0].safe, report.findings[0].note) == (
        True,
        False,
        "the name",
    )
    (fixed,) = fix(path, unsafe=True).fixed
    assert path.read_text() == "x = 1\nnew\n"
    assert [(each.code, each.line, each.note) for each in fixed.unsafe] == [("TC202", 2, "the name")]


def test_line_ends_of_a_fix_are_those_of_the_file(tmp_path, rule):
    rule(lambda source, node: Fix((source.replace(node, "(\n    new\n)"),)))
    path = write(tmp_path, one=b"x = 1\r\ny = old\r\n") / "one.py"
    fix(path)
    assert path.read_bytes() == b"x = 1\r\ny = (\r\n    new\r\n)\r\n"
