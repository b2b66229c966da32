"""What every way to copy a PyTorch tensor or model does and costs, measured on your machine."""

from ._errors import InputError, MeasurementError, TorchcopyError
from .semantics.advice import Advice, Needs, advise
from .semantics.catalogue import CopyMethod, find_method, find_methods, register_method, unregister_method
from .semantics.machine import Diagnosis, Machine, describe_machine, diagnose
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
    # know: what to write
    "Advice",
    "Needs",
    "advise",
    # know: this machine
    "Diagnosis",
    "Machine",
    "describe_machine",
    "diagnose",
]
