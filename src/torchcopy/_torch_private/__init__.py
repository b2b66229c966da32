"""The one package that names PyTorch's private entry points.

Each private function is wrapped here behind a self-check that runs once, at first use. Where the installed
torch fails the check, the wrapper takes the eager way instead, so that no caller has to ask. `fast_paths()`
says what the check saw; `torchcopy doctor` prints it.
"""

from .autograd_graph import is_used, next_node_number, node_number, running_node, saved_values, was_noticed
from .compiling import is_of_module_tagging, outside_compiled_graphs, restore_module_call, tag_module
from .foreach import foreach_clone, foreach_copy_, foreach_lerp_
from .forward_mode import no_grad
from .lazy_clones import are_lazy, copy_on_write_works, is_lazy, lazy_clone, strict_lazy_clone, strict_lazy_clones
from .modes import (
    below_autograd,
    every_warning,
    exit_mode,
    in_dispatch_mode,
    innermost_mode,
    is_functorch_wrapper,
    is_observed,
    is_traced,
    outside_modes,
    without_function_modes,
    without_torch_function,
)
from .profiling import profiled_allocations, profiler_is_running, wake_profiler
from .raw_memory import digest, held_storage, is_constant
from .self_checks import FastPath, fast_paths, works
from .static_types import wrap_method
from .storage_probe import StorageProbe, expired_storages, free_weak_storages, weak_storages
from .storages import (
    can_count_storage_uses,
    flip_negation,
    storage_address,
    storage_addresses,
    storage_id,
    storage_ids,
    storage_uses,
    storages_and_ids,
)
from .version_counters import shares_version_counter
from .watched import BACKWARD, compiled_calls, compiled_function, fill_tables, never_compile

__all__ = [
    "foreach_copy_",
    "foreach_lerp_",
    "foreach_clone",
    "copy_on_write_works",
    "are_lazy",
    "is_lazy",
    "lazy_clone",
    "strict_lazy_clone",
    "strict_lazy_clones",
    "outside_modes",
    "without_function_modes",
    "without_torch_function",
    "below_autograd",
    "in_dispatch_mode",
    "innermost_mode",
    "is_traced",
    "is_functorch_wrapper",
    "is_observed",
    "every_warning",
    "exit_mode",
    "no_grad",
    "is_of_module_tagging",
    "outside_compiled_graphs",
    "restore_module_call",
    "tag_module",
    "wake_profiler",
    "profiled_allocations",
    "profiler_is_running",
    "FastPath",
    "works",
    "fast_paths",
    "weak_storages",
    "free_weak_storages",
    "expired_storages",
    "StorageProbe",
    "storage_address",
    "storage_addresses",
    "storage_id",
    "storage_ids",
    "storages_and_ids",
    "can_count_storage_uses",
    "storage_uses",
    "flip_negation",
    "shares_version_counter",
    "BACKWARD",
    "compiled_calls",
    "compiled_function",
    "fill_tables",
    "never_compile",
    "wrap_method",
    "digest",
    "held_storage",
    "is_constant",
    "next_node_number",
    "node_number",
    "running_node",
    "saved_values",
    "is_used",
    "was_noticed",
]
