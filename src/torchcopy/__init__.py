"""Copies anything in PyTorch, and tells what every way to copy does and costs, measured on your machine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

# Each name is loaded from its module at first use, so that `import torchcopy` costs next to nothing.
_MODULES = {
    # errors
    "_errors": (
        "CopyError",
        "EscapeError",
        "EscapeWarning",
        "InputError",
        "CorruptSnapshotError",
        "MeasurementError",
        "RestoreError",
        "StagingError",
        "TorchcopyError",
    ),
    # know: the catalogue and what its methods do
    "semantics.catalogue": (
        "CopyMethod",
        "find_method",
        "find_methods",
        "register_method",
        "unregister_method",
    ),
    "semantics.probe": ("MethodFacts", "SourceFacts", "probe", "truth_table"),
    # know: how two things are related
    "semantics.relation": ("Relation", "TreeRelation", "relate"),
    # know: what articles say
    "semantics.claims": ("ClaimResult", "check_claims"),
    # know: what to write
    "semantics.advice": ("Advice", "Needs", "advise"),
    # know: this machine
    "semantics.machine": ("Diagnosis", "Machine", "describe_machine", "diagnose"),
    # make
    "copying.deep_copy": ("copy", "fork"),
    "copying.in_place": ("copy_", "lerp_"),
    "copying.tensors.memory_cache": ("empty_cache",),
    # keep
    "history.averages.averaging": ("average",),
    "history.comparing.comparison": ("compare",),
    "history.comparing.comparison_records": ("Comparison",),
    "history.averages.ema": ("EMA",),
    "history.history": ("History",),
    "history.snapshot": ("Snapshot",),
    # check: a running program
    "auditing.session": ("Audit", "audit"),
    "auditing.records": ("Finding", "Report"),
    # measure
    "bench.records": ("BenchReport", "Measurement"),
    "bench.models": ("bench_model",),
    "bench.tensors": ("bench_tensor_values", "bench_tensors"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = list(_HOMES)

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from ._errors import CopyError as CopyError
    from ._errors import CorruptSnapshotError as CorruptSnapshotError
    from ._errors import EscapeError as EscapeError
    from ._errors import EscapeWarning as EscapeWarning
    from ._errors import InputError as InputError
    from ._errors import MeasurementError as MeasurementError
    from ._errors import RestoreError as RestoreError
    from ._errors import StagingError as StagingError
    from ._errors import TorchcopyError as TorchcopyError
    from .auditing.records import Finding as Finding
    from .auditing.records import Report as Report
    from .auditing.session import Audit as Audit
    from .auditing.session import audit as audit
    from .bench.models import bench_model as bench_model
    from .bench.records import BenchReport as BenchReport
    from .bench.records import Measurement as Measurement
    from .bench.tensors import bench_tensor_values as bench_tensor_values
    from .bench.tensors import bench_tensors as bench_tensors
    from .copying.deep_copy import copy as copy
    from .copying.deep_copy import fork as fork
    from .copying.in_place import copy_ as copy_
    from .copying.in_place import lerp_ as lerp_
    from .copying.tensors.memory_cache import empty_cache as empty_cache
    from .history.averages.averaging import average as average
    from .history.averages.ema import EMA as EMA
    from .history.comparing.comparison import compare as compare
    from .history.comparing.comparison_records import Comparison as Comparison
    from .history.history import History as History
    from .history.snapshot import Snapshot as Snapshot
    from .semantics.advice import Advice as Advice
    from .semantics.advice import Needs as Needs
    from .semantics.advice import advise as advise
    from .semantics.catalogue import CopyMethod as CopyMethod
    from .semantics.catalogue import find_method as find_method
    from .semantics.catalogue import find_methods as find_methods
    from .semantics.catalogue import register_method as register_method
    from .semantics.catalogue import unregister_method as unregister_method
    from .semantics.claims import ClaimResult as ClaimResult
    from .semantics.claims import check_claims as check_claims
    from .semantics.machine import Diagnosis as Diagnosis
    from .semantics.machine import Machine as Machine
    from .semantics.machine import describe_machine as describe_machine
    from .semantics.machine import diagnose as diagnose
    from .semantics.probe import MethodFacts as MethodFacts
    from .semantics.probe import SourceFacts as SourceFacts
    from .semantics.probe import probe as probe
    from .semantics.probe import truth_table as truth_table
    from .semantics.relation import Relation as Relation
    from .semantics.relation import TreeRelation as TreeRelation
    from .semantics.relation import relate as relate


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
