"""MAKE: one copy for everything in PyTorch, at the speed of memory."""

from .copy import copy as copy
from .copy import fork as fork
