"""What is taken from the cache is what would be found; what cannot be used is done without."""

import contextlib
import json
import os
import sqlite3
import stat
import sys
import threading
import time
from pathlib import Path

import pytest
from lint_files import BAD, GOOD, fix, places, write

from torchcopy.linting import processes
from torchcopy.linting.cache import Cache
from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.project import module_path
from torchcopy.linting.reading import digest_of
from torchcopy.linting.result_texts import from_text
from torchcopy.linting.running import lint

IMPORTING = "from helper import shrink\n\n\ndef f(x):\n    return shrink(x).clone().detach()\n"


@pytest.fixture
def run(tmp_path):
    """A run with a cache of the test's own; files look as if they were written long ago."""

    def run(*paths, **options):
        return lint([str(path) for path in paths], cache_folder=str(tmp_path / "cache"), processes=1, **options)

    return run


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "src").mkdir()
    return tmp_path / "src"


def cache_files(tmp_path):
    return sorted((tmp_path / "cache").glob("*"))


def in_database(tmp_path, statement, *values):
    (file,) = cache_files(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def test_the_second_run_finds_the_same_and_checks_nothing(run, folder, monkeypatch):
    write(folder, one=BAD, two="print 'a'\n", three="y = 1  # torchcopy: ignore\n", four=GOOD)
    first = run(folder)
    monkeypatch.setattr("torchcopy.linting.running._check", lambda files, *_: [] if not files else 1 / 0)
    second = run(folder)
    assert (second.findings, second.skipped, second.unused) == (first.findings, first.skipped, first.unused)
    assert (first.files_cached, second.files_cached) == (0, 4)
    assert (second.files_read, second.files_skipped) == (3, 1)


def test_another_content_of_the_same_size_and_times_is_seen(run, folder):
    path = write(folder, one=BAD) / "one.py"
    before = path.stat()
    assert places(run(folder)) == [(2, "TC203")]
    path.write_text(GOOD)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert places(run(folder)) == []


def test_the_same_content_with_another_time_is_not_checked_again(run, folder):
    path = write(folder, one=BAD) / "one.py"
    run(folder)
    os.utime(path, (1, 1))
    assert run(folder).files_cached == 1


def test_other_codes_are_looked_for_anew(run, folder):
    write(folder, one=BAD)
    assert places(run(folder, select=["TC101"])) == []
    assert places(run(folder)) == [(2, "TC203")]
    assert run(folder).files_cached == 1


def test_a_file_is_checked_again_if_what_it_imports_has_changed(run, folder):
    write(folder, one=IMPORTING, helper="def shrink(x):\n    return x / 2\n")
    assert places(run(folder / "one.py")) == [(5, "TC203")]
    assert run(folder / "one.py").files_cached == 1
    write(folder, helper="def shrink(x):\n    return x / 4\n")
    assert run(folder / "one.py").files_cached == 0
    assert run(folder / "one.py").files_cached == 1


def test_it_is_also_if_the_other_was_checked_alone_meanwhile(run, folder):
    write(folder, one=IMPORTING, helper="def shrink(x):\n    return x / 2\n")
    run(folder)
    write(folder, helper="def shrink(x):\n    return x / 4\n")
    run(folder / "helper.py")
    assert run(folder / "one.py").files_cached == 0


def test_it_is_also_if_a_module_appears_or_goes(run, folder):
    write(folder, one=IMPORTING)
    run(folder)
    assert run(folder).files_cached == 1
    write(folder, helper="def shrink(x):\n    return x / 2\n")
    assert run(folder / "one.py").files_cached == 0
    (folder / "helper.py").unlink()
    assert run(folder / "one.py").files_cached == 0


def test_modules_that_import_each_other_end(run, folder):
    write(folder, one=IMPORTING, helper="from one import f\n\n\ndef shrink(x):\n    return f(x).clone().detach()\n")
    first = run(folder)
    second = run(folder)
    assert second.findings == first.findings
    assert second.files_cached == 2


def test_what_can_be_fixed_is_checked_anew_to_be_fixed(run, folder):
    path = write(folder, one=BAD, two=GOOD) / "one.py"
    run(folder)
    report = run(folder, fix_options=FixOptions("written"))
    assert path.read_text() == GOOD
    assert (report.files_cached, len(report.fixed)) == (1, 1)
    assert run(folder).findings == ()


def test_a_broken_cache_is_replaced(run, folder, tmp_path):
    write(folder, one=BAD)
    run(folder)
    (file,) = cache_files(tmp_path)
    for content in (b"no database", b"", file.read_bytes()[: file.stat().st_size // 2], os.urandom(9_000)):
        file.write_bytes(content)
        assert places(run(folder)) == [(2, "TC203")]
    assert places(run(folder)) == [(2, "TC203")]
    assert run(folder).files_cached == 1


def test_a_broken_row_is_as_good_as_none(run, folder, tmp_path):
    write(folder, one=BAD)
    run(folder)
    for result in (
        "{",
        "[]",
        '{"findings": 3}',
        '{"findings": [], "skipped": [{}], "unused": [], "is_read": true}',
    ):
        in_database(tmp_path, "update files set result = ?", result)
        assert places(run(folder)) == [(2, "TC203")]


def of_type(found, **fields):
    """The text of a result with other fields in its first finding."""
    result = json.loads(found)
    result["findings"][0] |= fields
    return json.dumps(result)


def test_a_result_of_other_types_is_as_good_as_none(run, folder, tmp_path):
    write(folder, one=BAD)
    first = run(folder)
    ((text,),) = in_database(tmp_path, "select result from files")
    assert from_text(text).findings[0].line == 2
    broken = [
        {"line": "2"},
        {"column": None},
        {"path": 3},
        {"code": "TC999"},
        {"text": []},
        {"also": [{"line": 2}]},
    ]
    for fields in [*broken, {"also": 3}, {"line": -1}, {"safe": 1}, {"more": 1}]:
        assert from_text(of_type(text, **fields)) is None
        in_database(tmp_path, "update files set result = ?", of_type(text, **fields))
        assert run(folder).findings[0].text == first.findings[0].text
    for text in ('{"findings": [3], "skipped": [], "unused": [], "is_read": true}', "[" * 100_000, "3"):
        assert from_text(text) is None


@pytest.mark.parametrize("value", ["null", "x'00'", "'text'", "3", "cast(x'ff' as text)", "'{\"a\": 3}'", "'[[]]'"])
def test_a_row_of_other_types_is_as_good_as_none(value, run, folder, tmp_path):
    write(folder, one=IMPORTING, helper="def shrink(x):\n    return x / 2\n")
    columns = "mtime ctime size seen since digest lookups checked codes result".split()
    for column in columns:
        run(folder)
        in_database(tmp_path, f"update files set {column} = {value}")
        assert places(run(folder)) == [(5, "TC203")]
    run(folder)
    assert run(folder).files_cached == 2


def test_a_file_that_is_written_while_others_that_import_it_are_checked_is_seen(run, folder, monkeypatch):
    write(folder, a=IMPORTING, helper="def shrink(x):\n    return x / 2\n")
    real = processes.check_file

    def check_file(path, *args):
        result = real(path, *args)
        if path.endswith("a.py"):
            write(folder, helper="def shrink(x):\n    return x / 4\n")
            os.utime(folder / "helper.py", (1, 1))
        return result

    monkeypatch.setattr(processes, "check_file", check_file)
    run(folder)
    monkeypatch.undo()
    assert run(folder / "a.py").files_cached == 0
    assert run(folder).files_cached == 1
    assert run(folder).files_cached == 2


def test_the_time_that_is_kept_is_from_before_the_file_was_read(run, folder, tmp_path, monkeypatch):
    write(folder, one=IMPORTING, helper="def shrink(x):\n    return x / 2\n", other=GOOD)
    read = {}
    real = processes.check_file

    def check_file(path, *args):
        read[path] = time.time_ns()
        return real(path, *args)

    monkeypatch.setattr(processes, "check_file", check_file)
    run(folder)
    seen = dict(in_database(tmp_path, "select path, seen from files"))
    assert len(seen) == 3
    assert all(seen[path] <= read[path] for path in seen)


@pytest.mark.skipif(sys.platform == "win32", reason="rights are told otherwise there")
def test_nobody_else_reads_what_is_kept(run, folder, tmp_path):
    write(folder, one=BAD)
    run(folder)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


# --- runs that overlap ----------------------------------------------------------------------------------------


@pytest.fixture
def shared(folder, tmp_path):
    """Two runs, begun one after the other: each checks a file, both import one that leads either elsewhere."""
    write(folder, one=GOOD, two=GOOD, shared=GOOD, low=GOOD, high=GOOD)
    paths = {name: str(folder / f"{name}.py") for name in ("one", "two", "shared", "low", "high")}
    caches = [Cache(str(tmp_path / "cache")) for _ in range(2)]
    for cache, name, module in zip(caches, ("one", "two"), ("low", "high"), strict=True):
        cache.load([paths[name]])
        digest = digest_of(GOOD.encode())
        cache.keep(paths[name], digest, Path(paths[name]).stat(), time.time_ns(), frozenset(), "{}")
        lookups = {paths[name]: {"shared": paths["shared"]}, paths["shared"]: {module: paths[module]}}
        cache.keep_imports(lookups, {paths["shared"]: digest, paths[module]: digest})
    return (*caches, paths)


@pytest.fixture
def result(tmp_path):
    def result(path):
        cache = Cache(str(tmp_path / "cache"))
        cache.load([path])
        module_path.cache_clear()
        return cache.result(path, frozenset())

    return result


def test_what_overlapping_runs_know_of_a_file_is_put_together(shared, result, folder):
    first, second, paths = shared
    second.save()
    first.save()
    assert result(paths["two"]) == "{}"
    write(folder, high=BAD)
    assert result(paths["two"]) is None


def test_where_overlapping_runs_have_seen_other_contents_neither_is_believed(shared, result, folder):
    first, second, paths = shared
    first.save()
    assert result(paths["one"]) == "{}"
    entry = second._entries[paths["shared"]]
    entry.digest = b"0" * 16  # it was written, and written back
    second.save()
    assert result(paths["one"]) is None
    assert result(paths["two"]) is None


def test_a_folder_that_cannot_be_made_is_done_without(folder, tmp_path):
    write(folder, one=BAD)
    (tmp_path / "file").write_text("")
    report = lint([str(folder)], cache_folder=str(tmp_path / "file" / "cache"), processes=1)
    assert places(report) == [(2, "TC203")]


def test_another_version_has_another_file(run, folder, tmp_path, monkeypatch):
    write(folder, one=BAD)
    run(folder)
    monkeypatch.setattr("torchcopy.linting.cache._fingerprint", lambda: "later")
    assert run(folder).files_cached == 0
    assert len(cache_files(tmp_path)) == 2


def age(path, days):
    os.utime(path, (time.time() - days * 86_400,) * 2)


def test_files_of_other_versions_go_when_nobody_has_used_them_for_long(run, folder, tmp_path):
    write(folder, one=BAD)
    run(folder)
    (own,) = cache_files(tmp_path)
    others = {"lint-0a.sqlite": 31, "lint-0a.sqlite-journal": 31, "lint-0b.sqlite": 29, "notes-0a.sqlite": 400}
    for name, days in others.items():
        (tmp_path / "cache" / name).write_bytes(b"")
        age(tmp_path / "cache" / name, days)
    (tmp_path / "cache" / "lint-0c.sqlite").mkdir()
    age(tmp_path / "cache" / "lint-0c.sqlite", 31)
    write(folder, two=BAD)
    run(folder)
    left = [own.name, "lint-0b.sqlite", "lint-0c.sqlite", "notes-0a.sqlite"]
    assert [path.name for path in cache_files(tmp_path)] == sorted(left)


def test_a_file_that_is_used_is_not_removed_by_another_version(run, folder, tmp_path, monkeypatch):
    write(folder, one=BAD)
    run(folder)
    (own,) = cache_files(tmp_path)
    age(own, 40)
    used = Cache(str(tmp_path / "cache"))
    with used._open() as connection:  # as another process has it
        monkeypatch.setattr("torchcopy.linting.cache._fingerprint", lambda: "0d")
        run(folder)
        assert own in cache_files(tmp_path)
        assert connection.execute("select count(*) from files").fetchone() == (1,)
    age(own, 40)
    write(folder, two=BAD)
    run(folder)
    assert [path.name for path in cache_files(tmp_path)] == ["lint-0d.sqlite"]


def test_an_own_file_that_is_only_read_counts_as_used(run, folder, tmp_path):
    write(folder, one=BAD)
    os.utime(folder / "one.py", (1, 1))
    run(folder)
    (own,) = cache_files(tmp_path)
    age(own, 40)
    assert run(folder).files_cached == 1
    assert own.stat().st_mtime > time.time() - 86_400


def test_nothing_is_kept_without_a_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHCOPY_CACHE_DIR", str(tmp_path / "cache"))
    write(folder, one=BAD)
    fix(folder)
    assert cache_files(tmp_path) == []


def test_more_findings_than_are_worth_keeping_are_not_kept(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("torchcopy.linting.running._MOST_KEPT", 1_000)
    write(folder, few=BAD, many=BAD * 20)
    assert len(run(folder).findings) == 21
    report = run(folder)
    assert (len(report.findings), report.files_cached) == (21, 1)


def test_runs_at_the_same_time_find_the_same(run, folder):
    for number in range(40):
        write(folder, **{f"file{number}": BAD})
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(run(folder))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(report.findings) for report in reports] == [40] * 6
    assert run(folder).files_cached == 40


@pytest.mark.parametrize("name", ["torchvision", "lightning", "transformers"])
def test_a_project_that_is_a_library_itself_finds_its_own_modules(name, tmp_path):
    package = tmp_path / name
    (package / "models").mkdir(parents=True)
    (package / "layers.py").write_text("")
    assert module_path(f"{name}.layers", str(package / "models")) == str(package / "layers.py")
    assert module_path(name, str(tmp_path / "site-packages")) is None
