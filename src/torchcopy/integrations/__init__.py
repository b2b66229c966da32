"""Ready parts for the loops of other libraries: the best weights kept in memory, and a way back from a NaN loss.

`torchcopy.integrations.lightning`, `.transformers` and `.ignite` each need their library. They are for models that
are whole in each process, not for those that FSDP or DeepSpeed cut into pieces.
"""

from .rollback import RollbackWarning as RollbackWarning
