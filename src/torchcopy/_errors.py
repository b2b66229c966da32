"""The exceptions torchcopy raises on purpose.

Every message is meant for the person who made the call: it names what was wrong, what was expected and
what to do. The command line prints the message as one line and exits with status 2.
"""

from __future__ import annotations


class TorchcopyError(Exception):
    """Base of everything torchcopy raises on purpose."""

    __module__ = "torchcopy"  # where users import it from, and so what a traceback names


class InputError(TorchcopyError, ValueError):
    """An argument cannot be used. Nothing was measured, written or changed."""

    __module__ = "torchcopy"


class MeasurementError(TorchcopyError, RuntimeError):
    """A measurement was started and could not be finished."""

    __module__ = "torchcopy"
