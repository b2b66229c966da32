"""What the words of a call tell: that it trains, that it only evaluates, that an object is a trainer."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ..nodes import (
    arguments,
    path_of,
)

if TYPE_CHECKING:
    from ..file_facts import FileFacts

_TRAINS = re.compile(
    r"(^|_)(train(er|ing)?|fit|finetune|learn|optimi[sz]e|optimi[sz]ation|update|epoch|do_step|train_?(step|batch|epoch|loop|iter|model))(_|$)"
)
_TRAINS_NOTHING = re.compile(
    r"eval|valid|test|log|lr|sched|progress|bar|stat|metric|loader|data|meter|print|config|param|mode|set_|get_|is_|"
    r"best|early|saved|ckpt|checkpoint|(^|_)keys?(_|$)|plot|display|history|desc|postfix|count|num|len|size|table|dict|dir|path|file|freeze|display|target|"
    r"learning_rate|summary|(^|_)(ema|for_inference)(_|$)|(^|_)(put|post|send|upload|report|record|clean|cleanup)(_|$)|_results?$|visuali|(^|_)(wealth|fitness|ranks?|prices?|end|begin|start)(_|$)|hook|callback"
)
TRAINERS = re.compile(r"train|learner|agent|engine|algo|solver|runner|experiment|client|strategy")
_EVALUATES = re.compile(r"^(val|valid|validation|eval|evaluate|evaluation|test|testing|dev)$")
CAMEL = re.compile(r"([a-z0-9])([A-Z])")
_AVERAGES = re.compile(r"ema|avg|average|swa|shadow|metric|meter|bar")
_OF_MODELS = re.compile(r"(?<=train)_models?(?=_|$)|(?<=fit)_models?(?=_|$)|(?<=tune)_models?(?=_|$)")
_MODE_ARGUMENTS = 1


def only_evaluates(facts: FileFacts, call: ast.Call) -> bool:
    """Whether a call is told not to train: `run_epoch(epoch, "val")`, `step(train=False)`, under `no_grad`."""
    for each in arguments(call):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and _EVALUATES.search(each.value.lower()):
            return True
    for word in call.keywords:
        is_no = isinstance(word.value, ast.Constant) and word.value.value is False
        if is_no and word.arg in ("train", "training", "is_train", "is_training"):
            return True
    return facts.is_without_graph(call)


def sounds_like_training(call: ast.Call, name: str, is_known: bool) -> bool:
    """Whether a call is named as one that trains; `is_known` tells that the project defines what is called."""
    lower = _OF_MODELS.sub("", CAMEL.sub(r"\1_\2", name).lower())
    if not _TRAINS.search(lower) or _TRAINS_NOTHING.search(lower):
        return False
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    receiver_name = (path_of(receiver) or "").lower().rpartition(".")[2]
    if lower == "train" and receiver is not None and len(arguments(call)) <= _MODE_ARGUMENTS:
        return bool(TRAINERS.search(receiver_name))
    if lower in ("update", "epoch", "learn", "optimize"):
        if _AVERAGES.search(receiver_name):
            return False
        given = [(path_of(each) or "").lower() for each in arguments(call)]
        return bool(TRAINERS.search(receiver_name)) or any(re.search(r"optim|model$|net$", each) for each in given)
    if receiver is None and not is_known:
        return bool(call.args or call.keywords)
    return True
