"""The exceptions torchcopy raises on purpose.

Every message is meant for the person who made the call: it names what was wrong, what was expected and
what to do. The command line prints the message as one line and exits with status 2.
"""

from __future__ import annotations

import copy


class TorchcopyError(Exception):
    """Base of everything torchcopy raises on purpose."""

    __module__ = "torchcopy"  # where users import it from, and so what a traceback names


class InputError(TorchcopyError, ValueError):
    """An argument cannot be used. Nothing was measured, written or changed."""

    __module__ = "torchcopy"


class MeasurementError(TorchcopyError, RuntimeError):
    """A measurement was started and could not be finished."""

    __module__ = "torchcopy"


class CopyError(TorchcopyError, copy.Error, TypeError):
    """Something inside what was to be copied cannot be. Nothing was copied; the message gives the path to it.

    It is a `copy.Error` and a `TypeError` too, the two that `copy.deepcopy` raises for such a thing.
    """

    __module__ = "torchcopy"


class EscapeError(TorchcopyError, RuntimeError):
    """A copy can still reach the tensors of its source, and the caller asked for `on_escape="error"`."""

    __module__ = "torchcopy"


class EscapeWarning(UserWarning):
    """A copy can still reach the tensors of its source: through a closure, a default argument, a weak reference."""

    __module__ = "torchcopy"


class RestoreError(TorchcopyError, ValueError):
    """A snapshot does not fit the objects that it was to be written into. Nothing was changed."""

    __module__ = "torchcopy"


class StagingError(TorchcopyError, RuntimeError):
    """The thread that was to move a snapshot's bytes could not. The snapshot is not in its history any more."""

    __module__ = "torchcopy"


class CorruptSnapshotError(TorchcopyError, ValueError):
    """A file is no snapshot, or not as it was saved. Nothing was loaded; the message names file and fault."""

    __module__ = "torchcopy"
