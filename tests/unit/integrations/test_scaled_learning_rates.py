"""A learning rate that is made smaller stays so, whatever computes it."""

import copy

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as lr

from torchcopy.integrations.learning_rate import scale_learning_rates

STEPS, WHEN, FACTOR = 20, 7, 0.25
SCHEDULERS = {
    "none": lambda o: [],
    "StepLR": lambda o: [lr.StepLR(o, 3)],
    "LambdaLR": lambda o: [lr.LambdaLR(o, lambda step: 1 / (1 + step))],
    "ExponentialLR": lambda o: [lr.ExponentialLR(o, 0.9)],
    "CosineAnnealingLR": lambda o: [lr.CosineAnnealingLR(o, STEPS)],
    "OneCycleLR": lambda o: [lr.OneCycleLR(o, max_lr=[0.3, 0.1], total_steps=STEPS + 1)],
    "CyclicLR": lambda o: [lr.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=4)],
    "SequentialLR": lambda o: [
        lr.SequentialLR(o, [lr.LinearLR(o, total_iters=10), lr.CosineAnnealingLR(o, STEPS)], [10])
    ],
    "ChainedScheduler": lambda o: [lr.ChainedScheduler([lr.LinearLR(o, total_iters=10), lr.ExponentialLR(o, 0.9)])],
}


def rates(schedulers_of, when):
    """The learning rates of each step; from step `when` on they are to be scaled."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.03}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    schedulers = schedulers_of(optimizer)
    before = copy.deepcopy(model.state_dict())
    found = []
    for step in range(STEPS):
        if step == when:
            scale_learning_rates([model, optimizer, *schedulers], FACTOR)
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()  # there are no gradients: nothing moves
        for scheduler in schedulers:
            scheduler.step()
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    return found


@pytest.mark.parametrize("schedulers_of", SCHEDULERS.values(), ids=SCHEDULERS)
def test_from_then_on_each_rate_is_smaller_by_the_factor(schedulers_of):
    usual, scaled = rates(schedulers_of, None), rates(schedulers_of, WHEN)
    assert scaled[:WHEN] == usual[:WHEN]
    wanted = [[FACTOR * rate for rate in step] for step in usual[WHEN:]]
    assert [pytest.approx(step, abs=1e-12) for step in wanted] == scaled[WHEN:]


def test_a_rate_that_is_a_tensor_stays_the_tensor_that_it_is():
    rate = torch.tensor(0.1)
    optimizer = torch.optim.Adam(nn.Linear(1, 1).parameters(), lr=rate, capturable=False, foreach=False)
    held = optimizer.param_groups[0]["lr"]
    scale_learning_rates([optimizer], 0.5)
    assert optimizer.param_groups[0]["lr"] is held
    assert float(held) == pytest.approx(0.05)


def test_the_rate_of_a_plateau_stays_where_it_was_put():
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    scheduler = lr.ReduceLROnPlateau(optimizer, factor=0.1, patience=0)
    scale_learning_rates([optimizer, scheduler], 0.5)
    for loss, wanted in ((1.0, 0.05), (0.5, 0.05), (0.9, 0.005)):
        scheduler.step(loss)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(wanted)
    assert scheduler.get_last_lr() == pytest.approx([0.005])
