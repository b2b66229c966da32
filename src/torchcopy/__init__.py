"""What every way to copy a PyTorch tensor or model does and costs, measured on your machine."""

from ._errors import InputError, MeasurementError, TorchcopyError
from .semantics.catalogue import CopyMethod, find_method, find_methods, register_method, unregister_method
from .semantics.probe import MethodFacts, SourceFacts, probe, truth_table

__version__ = "0.1.0"

__all__ = [
    # errors
    "InputError",
    "MeasurementError",
    "TorchcopyError",
    # know: the catalogue and what its methods do
    "CopyMethod",
    "MethodFacts",
    "SourceFacts",
    "find_method",
    "find_methods",
    "probe",
    "register_method",
    "truth_table",
    "unregister_method",
]
