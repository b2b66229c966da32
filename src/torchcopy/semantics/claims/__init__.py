"""What five articles say about copying tensors, each statement a check that is run anew."""

from .records import VERDICTS, Article, Claim, ClaimResult, Finding, MeasuredRatio, Verdict, parse_verdict
from .running import ARTICLES, CLAIMS, check_claims, find_claims, run_reproduction

__all__ = [
    # records
    "Article",
    "Claim",
    "ClaimResult",
    "Finding",
    "MeasuredRatio",
    "VERDICTS",
    "Verdict",
    "parse_verdict",
    # checking
    "ARTICLES",
    "CLAIMS",
    "check_claims",
    "find_claims",
    "run_reproduction",
]
