"""Steps of training, made on a source and on its copy, and compared."""

import torch
from copy_structure import assert_same_structure
from torch import nn


def small_model():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def sparse_model():
    return nn.Sequential(nn.EmbeddingBag(20, 4, sparse=True))


def parameters_of(model):
    return list(model.parameters())


def subclasses_in(module, base):
    return {name for name, cls in vars(module).items() if isinstance(cls, type) and issubclass(cls, base)}


def train_one_step(model, optimizer, seed=0):
    torch.manual_seed(100 + seed)
    sparse = isinstance(model[0], nn.EmbeddingBag)
    inputs = torch.randint(0, 20, (3, 2)) if sparse else torch.randn(3, 4)

    def loss():
        optimizer.zero_grad()
        result = model(inputs).square().mean()
        result.backward()
        return result

    return float(optimizer.step(loss).detach())


def weights_of(model):
    return [p.detach().clone() for p in model.parameters()]


def all_equal(ours, theirs):
    return len(ours) == len(theirs) > 0 and all(map(torch.equal, ours, theirs))


def assert_the_next_steps_are_the_same(ours, theirs, step=train_one_step, count=2):
    """Steps are made on both sides, first on the source; neither is seen on the other side."""
    (model, *rest), (copied, *its_rest) = ours, theirs
    at_copy = weights_of(model)
    assert all_equal(weights_of(copied), at_copy)
    losses = [step(model, *rest, seed=10 + k) for k in range(count)]
    after = weights_of(model)
    assert not all_equal(after, at_copy)
    assert all_equal(weights_of(copied), at_copy)
    assert [step(copied, *its_rest, seed=10 + k) for k in range(count)] == losses
    assert all_equal(weights_of(model), after)
    assert all_equal(weights_of(copied), after)
    assert_same_structure(ours, theirs)
