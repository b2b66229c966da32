"""The kinds of mistakes with copies: one table that the audit, the linter and `torchcopy explain` share."""

from .code import Code, Family, InSource
from .table import CODES, find_code, match_codes

__all__ = ["CODES", "Code", "Family", "InSource", "find_code", "match_codes"]
