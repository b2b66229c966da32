"""What a name tells of a loss. Each question has its own list of words: where more hangs on it, fewer are taken."""

from __future__ import annotations

import ast
import re

from ..nodes import path_of

_LOSS_LIKE = re.compile(r"loss|penalt|reg|kl|nll|cost|energy|objective|diverg|elbo|entropy")
_WEIGHTS = re.compile(r"(weight|coefs?|coeff|lambda|beta|scale|factor|rate|alpha|gamma)s?$|approx_?kl$")
_IS_LOSS = re.compile(  # by whole words: no `regions`, no `num_losses`
    r"^((?!item|log|dict|stat|val|num|count|acc|total|running)[a-z0-9]+_)*(loss|kl|kld|kl_div|nll|elbo)$|^l_[a-z0-9]+$"
)
_IS_LOSS_OF = re.compile(  # `out.loss_recon`, by whole words; of a dict it may as well be a number
    r"^loss_(?!(items?|logs?|dict|stats?|vals?|values?|nums?|counts?|acc|total|info|str|names?|fn|func|scales?|w|weights?"
    r"|coefs?|of|masks?|types?|ids?|scaler|history|mean|avg|sum|tokens?|ratios?|per|n|ema|len)(_|$))[a-z0-9_]+$"
)
_SURELY = re.compile(r"loss|(^|_)(kl|kld|nll|elbo)")
_SUMMANDS = re.compile(  # by whole words: what is added up to a loss, under a name that says no more
    r"(^|_)(mse|mae|bce|ce|l[12]|err|error|rec|recon|reconstruction|dice|adv|gp|tv|huber|hinge|triplet|ssim)(_|$)|^l_|^err"
)
_RESIDUALS = re.compile(r"(^|_)(resid(ual)?s?|errs?|errors?|diffs?|differences?)(_|$)")
_GIVES_LOSS = re.compile(r"(^|_)(loss|criterion|cross_entropy|nll|kl_div)(_fn|_func|_fnc|_function)?\d?$|^crit$")
_MODELS = re.compile(
    r"(^|_)(model|net|network|module|vae|autoencoder|nn|mlp|[cgr]nn|gcn|lstm|gru|u_?net|resnet|bert|transformer|"
    r"encoder|decoder|generator|discriminator|critic|actor|classifier|backbone|student|policy|predictor|regressor|"
    r"denoiser)\d?$|net$|(^|_)(model|net)([a-ru-z]|_([a-su-z][a-z]?\d?|scratch|main|base|student|online|local|global|new|ddp))$"
)


def mentions_loss(place: str | None) -> bool:
    """Whether a place may hold a loss, a term of one, or something about one: `loss`, `loss_weight`, `kl_total`."""
    return _LOSS_LIKE.search((place or "").lower()) is not None


def is_loss_like(place: str) -> bool:
    """Whether a place is named as a loss, and not as the weight of one, or as a measure of the step."""
    return mentions_loss(place) and _WEIGHTS.search(place.lower()) is None


def is_surely_loss(place: str) -> bool:
    """Whether a place is named as nothing but a loss would be: a penalty may be of an environment."""
    return _SURELY.search(place.lower()) is not None


def is_one_loss(name: str) -> bool:
    """Whether a name is that of one loss, by whole words, and not of a number for a report."""
    return _IS_LOSS.search(name.lower()) is not None


def is_loss_of_part(name: str) -> bool:
    """Whether an attribute is named as the loss of a part of something: `out.loss_recon`."""
    return _IS_LOSS_OF.search(name.lower()) is not None


def is_summand_by_name(name: str) -> bool:
    """Whether the last part of a name is that of what is added up to a loss: `out.l1`, `rec_error`."""
    return _SUMMANDS.search(name.lower().rpartition(".")[2]) is not None


def is_residual(name: str) -> bool:
    """Whether a name is that of what a loss is the mean square of: `residual`, `pde_error`."""
    return _RESIDUALS.search(name.lower()) is not None


def calls_loss(call: ast.Call) -> bool:
    """Whether what is called is named as one that gives a loss: `F.mse_loss`, `self.criterion`."""
    return _GIVES_LOSS.search(_last_name(call)) is not None


def calls_model(call: ast.Call) -> bool:
    """Whether what is called is named as a model."""
    return _MODELS.search(_last_name(call)) is not None


def _last_name(call: ast.Call) -> str:
    return (path_of(call.func) or "").lower().rpartition(".")[2]
