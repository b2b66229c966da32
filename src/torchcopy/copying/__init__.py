"""MAKE: one copy for everything in PyTorch, at the speed of memory."""

from .deep_copy import copy as copy
from .deep_copy import fork as fork
from .in_place import copy_ as copy_
from .in_place import lerp_ as lerp_
