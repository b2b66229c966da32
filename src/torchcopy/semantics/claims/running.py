"""Looking claims up and checking them, without a trace left in the process."""

from __future__ import annotations

import contextlib
import difflib
import io
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator

import torch

from ... import _torch_private
from ..._errors import InputError, MeasurementError
from . import clone_detach_copy, clone_detach_deepcopy, copying_methods, deepcopy_vs_clone, tensor_copy
from .measurements import Measurements
from .records import Article, Claim, ClaimResult

_MODULES = (copying_methods, deepcopy_vs_clone, tensor_copy, clone_detach_copy, clone_detach_deepcopy)

ARTICLES: tuple[Article, ...] = tuple(module.ARTICLE for module in _MODULES)
"""The articles, in the order in which their claims are reported."""

CLAIMS: tuple[Claim, ...] = tuple(claim for module in _MODULES for claim in module.CLAIMS)

_ARTICLES = {article.slug: article for article in ARTICLES}


def find_claims(ids: Iterable[str] | None = None, *, articles: Iterable[str] | None = None) -> tuple[Claim, ...]:
    """The claims called `ids`, or all, of the articles called `articles`, or all; in the order of the articles.

    No tensor is involved: nothing is shared, changed or synchronised.

    Args:
        ids: ids of claims.
        articles: slugs of articles.

    Raises:
        InputError: there is no such claim or article, or no claim is left.

    Example:
        >>> from torchcopy.semantics.claims import find_claims
        >>> find_claims(["tensor-copy/clone-memory"])[0].claim
        'Table, row `clone`: memory is not shared.'
    """
    wanted = _known("claim", ids, [claim.id for claim in CLAIMS], "`torchcopy claims --json` lists them all")
    slugs = _known("article", articles, list(_ARTICLES), f"there are {', '.join(_ARTICLES)}")
    found = tuple(claim for claim in CLAIMS if claim.id in wanted and claim.article in slugs)
    if not found:
        raise InputError(f"none of the claims {sorted(wanted)} is in {sorted(slugs)}: ids begin with their article")
    return found


def check_claims(
    ids: Iterable[str] | None = None,
    *,
    articles: Iterable[str] | None = None,
    on_claim: Callable[[str], object] | None = None,
) -> tuple[ClaimResult, ...]:
    """Checks what the articles say about copying, now and on this machine.

    Tensors of the caller are neither shared, read nor changed, and no graph of theirs is touched. Where there is a
    CUDA device, the examples that an article ran on CUDA run there and synchronise it. The random state, the
    warning filters, the default dtype and the default device are afterwards what they were.

    Args:
        ids: ids of the claims to check; all by default.
        articles: slugs of the articles to check; all by default.
        on_claim: called with the id of each claim before it is checked.

    Raises:
        InputError: there is no such claim or article; nothing was measured then.
        MeasurementError: a check broke off.

    Example:
        >>> from torchcopy.semantics.claims import check_claims
        >>> check_claims(["deepcopy-vs-clone/clone-shares-memory"])[0].verdict
        'does not hold'
    """
    claims = find_claims(ids, articles=articles)
    measured = Measurements()
    results = []
    if _torch_private.profiler_is_running():
        raise MeasurementError("claims count the bytes of copies, which a running profiler prevents: stop it first")
    with _undisturbed():
        for claim in claims:
            if on_claim is not None:
                on_claim(claim.id)
            results.append(_check(claim, measured))
    return tuple(results)


def _known(what: str, wanted: Iterable[str] | None, known: Collection[str], listing: str) -> set[str]:
    if wanted is None:
        return set(known)
    names = {wanted} if isinstance(wanted, str) else set(wanted)
    for name in sorted(names - set(known)):
        close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]!r}?" if close else listing
        raise InputError(f"there is no {what} {name!r}: {hint}")
    return names


def _check(claim: Claim, measured: Measurements) -> ClaimResult:
    try:
        finding = claim.check(measured)
    except Exception as error:
        raise MeasurementError(
            f"claim {claim.id!r} could not be checked: {type(error).__name__}: {error}"
        ) from error
    shows = claim.reproduction if finding.verdict != "holds" else ""
    article = _ARTICLES[claim.article]
    return ClaimResult(
        id=claim.id,
        article=article.slug,
        title=article.title,
        language=article.language,
        claim=claim.claim,
        verdict=finding.verdict,
        evidence=finding.evidence,
        timing=claim.timing,
        ratios=finding.ratios,
        reproduction=shows or None,
        reproduction_output=run_reproduction(shows) if shows else None,
    )


def run_reproduction(code: str) -> str:
    """What `code` prints, run in a namespace of its own; an exception that it lets out is the last line."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        try:
            exec(compile(code, "<reproduction>", "exec"), {"__name__": "__main__"})
        except Exception as error:  # noqa: BLE001  # on another torch it may fail: that is to be seen, not to stop all
            print(f"{type(error).__name__}: {error}", file=printed)
    return printed.getvalue().rstrip("\n")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """The defaults that the articles' examples assume; on leaving, all that was set before is set again."""
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    try:
        torch.set_default_dtype(torch.float32)
        if device.type != "cpu":
            torch.set_default_device(None)
        with (
            torch.random.fork_rng(devices=()),
            torch.inference_mode(False),
            torch.enable_grad(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(dtype)
        if device.type != "cpu":
            torch.set_default_device(device)
