"""What `restore` writes: in place, or, where both sides are lazy and nobody can tell, by sharing bytes."""

import numpy as np
import pytest
import torch

import torchcopy as tc
from torchcopy import _torch_private
from torchcopy.history.write_back import write_back


def lazy_pair():
    """A live tensor that shares its bytes with one lazy clone, and another lazy tensor to restore."""
    live, saved = torch.arange(4.0), torch.full((4,), 9.0)
    return live, _torch_private.lazy_clone(live), _torch_private.lazy_clone(saved), saved


def test_a_tensor_that_was_not_lazy_keeps_its_memory():
    live, saved = torch.zeros(4), torch.ones(4)
    address = live.data_ptr()
    write_back([(live, saved)])
    assert live.tolist() == [1] * 4
    assert live.data_ptr() == address
    live.fill_(2)
    assert saved.tolist() == [1] * 4


def test_lazy_tensors_share_bytes_until_either_is_written():
    live, before, saved, source = lazy_pair()
    version = live._version
    write_back([(live, saved)])
    assert _torch_private.storage_address(live) == _torch_private.storage_address(saved)
    assert live._version > version
    assert live.tolist() == [9] * 4
    live.fill_(5)
    source.fill_(6)
    assert (live.tolist(), saved.tolist(), before.tolist()) == ([5] * 4, [9] * 4, [0, 1, 2, 3])


@pytest.mark.parametrize("look", ["view", "array"])
def test_a_lazy_tensor_that_others_see_is_written_in_place(look):
    live, before, saved, _ = lazy_pair()
    other = live[1:] if look == "view" else live.numpy()
    write_back([(live, saved)])
    assert np.asarray(other).tolist() == [9] * (3 if look == "view" else 4)
    other[0] = 1.0
    assert 1.0 in live.tolist()
    assert saved.tolist() == [9] * 4
    assert before.tolist() == [0, 1, 2, 3]


def test_what_still_has_the_bytes_is_left_alone():
    live = torch.arange(4.0)
    saved = _torch_private.lazy_clone(live)
    version, address = live._version, _torch_private.storage_address(live)
    write_back([(live, saved)])
    assert live._version == version
    assert _torch_private.storage_address(live) == address
    assert _torch_private.is_lazy(live)


def test_a_graph_that_needs_the_old_values_raises():
    weight = torch.nn.Parameter(torch.ones(3))
    history = tc.History(w={"weight": weight}, mode="lazy", rng=False)
    first = history.take()
    with torch.no_grad():
        weight.mul_(2)
    history.take()
    loss = weight.square().sum()
    first.restore()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
