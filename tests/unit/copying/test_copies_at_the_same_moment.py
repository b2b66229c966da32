"""Two threads that copy one object at the same moment."""

import collections
import threading

import pytest
import torch
from copying_checks import assert_apart, assert_same_sharing, matched_tensors, same_values
from copying_classes import Annotated, Block, ByItsOwn, Node, Rebuilt, Witness
from torch import nn

import torchcopy as tc

ROUNDS = 200


def everything():
    """Ties, views, a cycle, a non-leaf, a subclass, and objects whose own code runs while they are copied."""
    flat = torch.arange(60.0)
    weight = nn.Parameter(flat[:12].view(3, 4))
    node = Node(weight, flat[6:18], flat[40:])
    node.children.append(node)
    return collections.OrderedDict(
        model=Block([weight, torch.arange(5), nn.Parameter(torch.arange(9.0))], node),
        result=torch.arange(4.0).requires_grad_() * 2,
        named=torch.arange(7.0).as_subclass(Annotated),
        witness=Witness(flat[30:50], weight),
        rebuilt=Rebuilt(torch.arange(8)),
        own=ByItsOwn(torch.arange(3.0) + 1, flat[::7]),
        state={f"layer.{k}": torch.full((300,), float(k)) for k in range(30)},
    )


OPTIONS = [{}, {"memory": "lazy"}, {"memory": "share"}, {"dtype": torch.float64}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_gets_a_whole_copy(options):
    source = everything()
    made, start = [[None] * ROUNDS for _ in range(2)], threading.Barrier(2)
    errors = []

    def work(copies):
        try:
            for k in range(ROUNDS):
                start.wait(60)
                copies[k] = tc.copy(source, on_escape="ignore", **options)
        except BaseException as error:
            errors.append(error)
            start.abort()
            raise

    threads = [threading.Thread(target=work, args=(copies,)) for copies in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []
    for copies in zip(*made, strict=True):
        pairs = [matched_tensors(source, copied)[0] for copied in copies]
        for s, c in [*pairs[0], *pairs[1]]:
            assert same_values(s, c)
        if options.get("memory") != "share":
            assert_same_sharing(pairs[0])
    if options.get("memory") != "share":
        assert_apart(matched_tensors(source, made[0][0])[0])
        assert_apart(matched_tensors(made[0][1], made[1][1])[0])
