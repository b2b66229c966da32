"""A program that never imports torch."""

import atexit
import sys

atexit.register(lambda: print("torch" in sys.modules, [type(each).__name__ for each in sys.meta_path]))
print(input(), sys.argv)
print("to stderr", file=sys.stderr)
