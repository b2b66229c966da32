"""MAKE: one copy for everything in PyTorch, at the speed of memory."""

from .deep_copy import copy as copy
from .deep_copy import fork as fork
