"""Files over processes give what one process gives; one that dies is told."""

import dataclasses
import gc
import os
import subprocess
import sys

import pytest
from lint_files import BAD, write

from torchcopy.linting import processes
from torchcopy.linting.checking import check
from torchcopy.linting.files import FileToCheck
from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.project import Project
from torchcopy.linting.running import lint
from torchcopy.linting.settings import DEFAULT_CODES
from torchcopy.linting.source import Source

LONG = BAD + "# a long comment\n" * 4_000


@pytest.fixture
def folder(tmp_path):
    for number in range(24):
        write(tmp_path, **{f"file{number:02}": LONG if number % 3 else "print 'a'\n"})
    return tmp_path


def test_two_processes_find_what_one_does(folder):
    one = lint([str(folder)], cache=False, processes=1)
    two = lint([str(folder)], cache=False, processes=2)
    assert two == one
    assert (len(one.findings), one.files_skipped) == (16, 8)


def test_fixes_are_written_by_any_of_them(folder):
    report = lint([str(folder)], cache=False, processes=2, fix_options=FixOptions("written"))
    assert len(report.fixed) == 16
    assert lint([str(folder)], cache=False, processes=1).findings == ()


def test_few_files_start_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_pool", lambda *_: pytest.fail("a process was started"))
    write(tmp_path, one=BAD, two=BAD)
    assert len(lint([str(tmp_path)], cache=False, processes=8).findings) == 2


def test_a_file_that_ends_its_process_is_told_and_the_others_are_checked(tmp_path):
    # In a process of its own, for workers see what is patched here only if they are forked.
    write(tmp_path, **{f"file{number}": LONG for number in range(12)}, deadly=LONG)
    program = f"""
import os
from torchcopy.linting import processes
from torchcopy.linting.checking import check
from torchcopy.linting.running import lint
real = processes.check_file
def check_file(path, *rest):
    if path.endswith("deadly.py"):
        os._exit(9)
    return real(path, *rest)
processes.check_file = check_file
report = lint([{str(tmp_path)!r}], cache=False, processes=2)
print(len(report.findings), [(os.path.basename(each.path), each.reason, each.is_error) for each in report.skipped])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "12 [('deadly.py', 'ends the process that reads it', True)]\n"


def test_chunks_hold_every_file_once(tmp_path):
    files = [FileToCheck(f"/f{n}.py", DEFAULT_CODES, size) for n, size in enumerate([10, 300_000, 0, 90_000] * 100)]
    chunks = list(processes._chunks(files))
    assert sorted(file.path for chunk in chunks for file in chunk) == sorted(file.path for file in files)
    sizes = [sum(file.size for file in chunk) for chunk in chunks]
    assert sizes == sorted(sizes, reverse=True)


def test_a_file_that_is_gone_when_its_turn_comes_is_skipped(tmp_path):
    gone = FileToCheck(str(tmp_path / "gone.py"), DEFAULT_CODES, 3)
    (checked,) = processes.check_files([gone], FixOptions())
    assert [each.reason for each in checked.result.skipped] == ["cannot be opened: No such file or directory"]
    assert dataclasses.asdict(checked)["status"] is None
    assert not os.path.lexists(gone.path)


def test_what_is_known_of_a_file_is_freed_without_the_garbage_collector():
    functions = "".join(BAD.replace("keep", f"keep{number}") for number in range(200))
    check(Source("first.py", functions), DEFAULT_CODES, Project())  # what is made once is made now
    gc.collect()
    gc.disable()
    try:
        checked = check(Source("a.py", functions), DEFAULT_CODES, Project())
        left = gc.collect()
    finally:
        gc.enable()
    assert len(checked.findings) == 200
    assert left < 200  # of some thousand nodes
