"""What a program can see of how it was started."""

import sys

BEFORE = sorted(globals())
TYPES = {name: type(globals()[name]).__name__ for name in BEFORE}

import dataclasses  # noqa: E402
import inspect  # noqa: E402
import pickle  # noqa: E402
import threading  # noqa: E402
import typing  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402

main = sys.modules["__main__"]
print(BEFORE, TYPES)
print(__name__, __file__, __package__, __spec__, __doc__, __cached__, __loader__.name, __loader__.path)
print(main.__dict__ is globals(), __builtins__ is sys.modules["builtins"], sys.argv, sys.orig_argv, sys.path[0])
print(Path.cwd(), threading.current_thread() is threading.main_thread(), inspect.currentframe().f_code.co_filename)


@dataclasses.dataclass
class Settings:
    """Of this program."""

    rate: "float" = 0.1
    names: typing.ClassVar[list] = []


print(typing.get_type_hints(Settings), inspect.getsource(Settings), pickle.dumps(Settings()))
print(inspect.getmodule(Settings) is main, torch.ones(1), sys.flags, sys.warnoptions, sys.stdin.read())
print(sys.stdout.errors, sys.stdout.encoding, sys.stdout.line_buffering, sys.excepthook, sys.displayhook)
