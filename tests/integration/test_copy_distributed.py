"""Process groups and what holds them: refused with a path, kept on request, made anew by a wrapped model.

And distributed tensors, which know their group by its mesh.
"""

import pytest
import torch
import torch.distributed as dist
from copy_structure import assert_same_values, assert_writes_stay_apart
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from training_steps import all_equal, assert_the_next_steps_are_the_same, small_model, train_one_step, weights_of

import torchcopy as tc

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def group():
    """The group of this process alone; its store is in memory."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


class Sharded(nn.Module):
    """A module that keeps the group over which it sums."""

    def __init__(self, held):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.held = held

    def forward(self, x):
        return x @ self.weight


HELD = {
    "process group": lambda group: group,
    "backend": lambda group: group._get_backend(torch.device("cpu")),
    "store": lambda group: dist.HashStore(),
    "work under way": lambda group: dist.all_reduce(torch.ones(2), group=group, async_op=True),
}
every_handle = pytest.mark.parametrize("hold", HELD.values(), ids=HELD.keys())


@every_handle
def test_a_handle_is_refused_with_its_path(hold, make, group):
    model = nn.Sequential(nn.Linear(4, 4), Sharded(hold(group)))
    before = weights_of(model)
    with pytest.raises(tc.CopyError, match=r"`obj\['model'\]\[1\]\.held`.*cannot be copied.*share=\("):
        make({"model": model})
    assert all_equal(weights_of(model), before)


@every_handle
@pytest.mark.parametrize("by", ["object", "type"])
def test_a_handle_is_kept_where_both_sides_share_it(hold, by, make, group):
    model = nn.Sequential(nn.Linear(4, 4), Sharded(hold(group)))
    held = model[1].held
    copied = make(model, share=[held if by == "object" else type(held)])
    assert copied[1].held is held
    assert copied[1] is not model[1]
    assert_writes_stay_apart(dict(model.named_parameters()), dict(copied.named_parameters()))


def _wrapped(**options):
    return DistributedDataParallel(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)), **options)


class First(nn.Module):
    """So that a wrapped model can be trained as those of the other tests are."""

    def __init__(self, wrapped):
        super().__init__()
        self.wrapped = wrapped

    def __getitem__(self, k):
        return self.wrapped.module[k]

    def forward(self, x):
        return self.wrapped(x)


OPTIONS = {
    "plain": {},
    "gradients in buckets": {"gradient_as_bucket_view": True},
    "unused parameters": {"find_unused_parameters": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.filterwarnings("ignore:find_unused_parameters=True was specified:UserWarning")
def test_a_wrapped_model_goes_on_as_its_source(options, steps, make, group):
    torch.manual_seed(0)
    model = First(_wrapped(**options))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for k in range(steps):
        train_one_step(model, optimizer, k)
    copied, its_optimizer = make((model, optimizer), on_escape="error")
    wrapped, its = model.wrapped, copied.wrapped
    assert its.process_group is group
    assert its.reducer is not wrapped.reducer
    assert its.module is not wrapped.module
    ours, theirs = dict(model.named_parameters()), dict(copied.named_parameters())
    assert_same_values(ours, theirs)
    assert_writes_stay_apart(ours, theirs)

    at_copy, rates = weights_of(model), []
    for pair, other in (((model, optimizer), copied), ((copied, its_optimizer), model)):
        left_alone = weights_of(other)
        rates.append([train_one_step(*pair, seed=10 + k) for k in range(2)])
        assert all_equal(weights_of(other), left_alone)
    assert rates[0] == rates[1]
    assert all_equal(weights_of(model), weights_of(copied))
    assert not all_equal(weights_of(model), at_copy)


def test_the_model_within_a_wrapper_is_copied_without_the_group(group):
    torch.manual_seed(0)
    model = small_model()
    wrapper = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_one_step(First(wrapper), optimizer)
    copied, its_optimizer = tc.copy((wrapper.module, optimizer), on_escape="error")
    assert_the_next_steps_are_the_same((model, optimizer), (copied, its_optimizer))


@pytest.mark.parametrize("options", [{}, {"dtype": torch.float64}, {"grad": True}], ids=str)
def test_a_model_of_distributed_tensors_trains_with_its_optimizer(options):
    mesh = init_device_mesh("cpu", (1,))
    model = nn.Linear(2, 2)
    model.weight = nn.Parameter(distribute_tensor(torch.ones(2, 2), mesh, [Shard(0)]))
    model.bias = nn.Parameter(distribute_tensor(torch.ones(2), mesh, [Replicate()]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(distribute_tensor(torch.ones(1, 2), mesh, [Replicate()])).sum().backward()
    optimizer.step()
    copied, its_optimizer = tc.copy((model, optimizer), **options)
    dtype = options.get("dtype", torch.float32)
    weight = copied.weight
    assert (type(weight), weight.placements, weight.dtype) == (type(model.weight), (Shard(0),), dtype)
    assert weight.device_mesh == mesh
    assert its_optimizer.param_groups[0]["params"][0] is weight
    assert (weight.grad is None) == ("grad" not in options)
    before, ours = weight.to_local().tolist(), model.weight.to_local().tolist()
    optimizer.step()
    assert weight.to_local().tolist() == before
    assert model.weight.to_local().tolist() != ours
    now = model.weight.to_local().tolist()
    copied(distribute_tensor(torch.ones(1, 2, dtype=dtype), mesh, [Replicate()])).sum().backward()
    its_optimizer.step()
    assert weight.to_local().tolist() != before
    assert model.weight.to_local().tolist() == now


@pytest.mark.parametrize("memory", ["own", "lazy", "share"])
def test_gradients_flow_through_a_copy_of_a_distributed_tensor(memory):
    mesh = init_device_mesh("cpu", (1,))
    source = distribute_tensor(torch.ones(2, 2), mesh, [Shard(0)]).requires_grad_()
    copied = tc.copy([source * 2], graph="keep", memory=memory)[0]
    (copied * 3).sum().backward()
    assert source.grad.to_local().tolist() == [[6, 6], [6, 6]]
    with torch.no_grad():
        source.zero_()
    assert copied.to_local().tolist() == [[2, 2], [2, 2]]
