"""KEEP: snapshots of a run that cost almost nothing."""

from .history import History as History
from .snapshot import Snapshot as Snapshot
