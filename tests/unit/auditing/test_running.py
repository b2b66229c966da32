"""How a program is found, run and left; each test runs in a process of its own, beside `python` itself."""

import py_compile
import subprocess
import sys
import zipfile

import pytest

from torchcopy import InputError
from torchcopy.auditing.running import find_program

# Runs its arguments as a program, with a context that tells when it is entered and left.
RUNNER = """
import sys
from torchcopy.auditing.running import ProgramInterrupted, find_program

class Around:
    def __enter__(self): print("entered", file=sys.__stderr__)
    def __exit__(self, kind, error, trace): print("left", kind and kind.__name__, file=sys.__stderr__)

is_module = sys.argv[1] == "-m"
arguments = sys.argv[1 + is_module:]
ending = find_program(arguments, is_module=is_module).run(Around())
print("status", ending.status, file=sys.__stderr__)
if ending.interrupted:
    ProgramInterrupted().leave()
sys.exit(ending.status)
"""

FACTS = """
import sys
main = sys.modules["__main__"]
print(__name__, __file__, __package__, __spec__ and __spec__.name, __doc__, __cached__ and __cached__[-20:])
print(sys.argv, sys.orig_argv, sys.path[0], main.__dict__ is globals(), type(__loader__).__name__)
print(sorted(globals()))
class Kept: pass
import pickle
print(type(pickle.loads(pickle.dumps(Kept()))) is Kept)
"""

THREAD = "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('main')\n"
POOL = "from concurrent.futures import ThreadPoolExecutor as P\np = P(1)\np.submit(print, 'pooled')\n"
TORCH = "import sys\nsys.modules['torch'] = None\n"  # as if torch were there: threads are waited for
HOOK = "import sys\nsys.excepthook = lambda kind, error, trace: {}\nraise ValueError(1)"

PROGRAMS = {
    "facts": FACTS,
    "exit 3": "import sys; sys.exit(3)",
    "exit with text": "import sys; sys.exit('no data')",
    "exit with None": "raise SystemExit",
    "exit with True": "raise SystemExit(True)",
    "exit with -1": "raise SystemExit(-1)",
    "exit with a float": "raise SystemExit(2.5)",
    "exit beyond": "raise SystemExit(1 << 70)",
    "error": "def f():\n    return 1 / 0\n\ntry:\n    f()\nexcept ZeroDivisionError:\n    {}['key']\n",
    "group": "raise ExceptionGroup('two', [ValueError('a'), TypeError('b')])",
    "syntax": "eval('1 +')",
    "recursion": "def f(n):\n    return n and f(n - 1)\nf(900)\n"
    "try:\n    f(2000)\nexcept RecursionError as error:\n    print(error)\n",
    "interrupt": "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nfinally:\n    print('finally')\n",
    "hook": HOOK.format("print(kind, error, trace.tb_lineno)"),
    "failing hook": HOOK.format("1 / 0"),
    "exiting hook": HOOK.format("sys.exit(9)"),
    "last": "import atexit, sys\natexit.register(lambda: print(sys.last_value, sys.last_type))\n1 / 0",
    "no stderr": "import sys\nsys.stderr = None\nraise ValueError(1)",
    "closed stdout": "import sys\nsys.stdout.close()\nsys.exit(4)",
    "atexit": "import atexit, sys\natexit.register(lambda: print('exit', sys.excepthook is sys.__excepthook__))\n",
    "interrupt and atexit": "import atexit, sys\n"
    "atexit.register(lambda: print(sys.excepthook is sys.__excepthook__))\nraise KeyboardInterrupt",
    "thread": "import threading, time\n" + THREAD,
    "thread with torch": TORCH + "import threading, time\n" + THREAD,
    "executor": POOL,
    "executor with torch": TORCH + POOL,
    "future": "from __future__ import annotations\ndef f(x: nowhere): ...\nprint(f.__annotations__)",
    "encoding": "# -*- coding: latin-1 -*-\nprint('é'.encode())",
    "warning": "import warnings\nwarnings.warn('here', DeprecationWarning)\nwarnings.warn('there')\n",
    "changes folder": "import os\nos.chdir('/')\nprint(os.getcwd(), __file__)",
}


def run(arguments, folder, *, before=()):
    done = subprocess.run(
        [sys.executable, *before, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, input=""
    )
    return done.returncode, done.stdout, done.stderr


def without_marks(err):
    return "".join(line for line in err.splitlines(True) if not line.startswith(("entered", "left ", "status ")))


@pytest.fixture
def same(tmp_path):
    """Runs arguments both ways and compares; returns what was written to stderr around the program's own."""
    (tmp_path / "runner.py").write_text(RUNNER)
    folder = tmp_path / "work"
    folder.mkdir()

    def compare(*arguments):
        plain = run(arguments, folder)
        ours = run(arguments, folder, before=[str(tmp_path / "runner.py")])
        assert ours[:2] == plain[:2]
        assert without_marks(ours[2]) == plain[2]
        return ours[2]

    compare.folder = folder
    return compare


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_runs_as_python_runs_it(same, name):
    (same.folder / "program.py").write_text(PROGRAMS[name], encoding="latin-1")
    marks = same("program.py", "--lr", "3", "-x")
    assert marks.startswith("entered\n")
    assert "left " in marks
    assert "status " in marks


@pytest.mark.parametrize(
    "arguments",
    [["./sub/../program.py"], ["link.py"], ["sub"], ["-m", "program"], ["-m", "sub"], ["-m", "sub.inner", "-v"]],
    ids=" ".join,
)
def test_each_way_to_name_a_program(same, arguments):
    (same.folder / "sub").mkdir()
    for path in ("program.py", "sub/__main__.py", "sub/inner.py"):
        (same.folder / path).write_text(FACTS)
    (same.folder / "sub" / "__init__.py").write_text("import sys; print('package', __name__, sys.argv)")
    (same.folder / "link.py").symlink_to("sub/inner.py")
    same(*arguments)


def test_an_error_in_a_module_has_the_traceback_of_python(same):
    (same.folder / "program.py").write_text("def f():\n    raise ValueError('deep')\nf()\n")
    assert "in _run_module_as_main" in same("-m", "program")
    assert "No module named" in same("-m", "json.nothing")


def test_compiled_files_and_archives_run(same):
    (same.folder / "program.py").write_text("print(__file__, __name__)\n1 / 0\n")
    py_compile.compile(same.folder / "program.py", cfile=str(same.folder / "program.pyc"))
    with zipfile.ZipFile(same.folder / "all.zip", "w") as archive:
        archive.write(same.folder / "program.py", "__main__.py")
    (same.folder / "program.py").unlink()
    same("program.pyc")
    same("all.zip", "argument")


def test_workers_that_are_spawned_import_the_program_again(same):
    (same.folder / "program.py").write_text(
        "import multiprocessing\nprint('as', __name__, flush=True)\ndef work(n):\n    return n * 2\n"
        "if __name__ == '__main__':\n"
        "    for how in ('spawn', 'fork'):\n"
        "        with multiprocessing.get_context(how).Pool(1) as pool:\n"
        "            print(pool.map(work, [1, 2]), work.__module__)\n"
    )
    same("program.py")
    same("-m", "program")


def test_the_context_is_told_what_ended_the_program(same):
    for source, kind in [("1 / 0", "ZeroDivisionError"), ("exit(2)", "SystemExit"), ("1", "None")]:
        (same.folder / "program.py").write_text(source)
        assert f"left {kind}\n" in same("program.py")


@pytest.mark.parametrize(
    ("arguments", "is_module", "message"),
    [
        ([], False, "nothing to run"),
        ([], True, "nothing to run"),
        (["missing.py"], False, "there is no file 'missing.py'"),
        (["folder"], False, "has no `__main__.py`"),
        (["text.py"], False, "'text.py' is not Python, line 1"),
        (["bytes.py"], False, "is not Python"),
        (["text.pyc"], False, "is not Python|cannot read"),
        ([""], True, "names no module"),
        ([".relative"], True, "names no module"),
        (["no_such_module_here"], True, "there is no module 'no_such_module_here'"),
        (["no_such_module_here.py"], True, "without `-m`"),
        (["folder"], True, "is a package without a `__main__.py`"),
        (["this.that"], True, "'this' is not a package"),
    ],
)
def test_what_is_no_program_is_refused(tmp_path, monkeypatch, arguments, is_module, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.py").write_text("this is no Python")
    (tmp_path / "text.pyc").write_text("this is no Python")
    (tmp_path / "bytes.py").write_bytes(bytes(range(256)))
    before = list(sys.path), list(sys.argv), sys.modules["__main__"]
    with pytest.raises(InputError, match=message):
        find_program(arguments, is_module=is_module)
    assert (list(sys.path), list(sys.argv), sys.modules["__main__"]) == before
