"""A data loader whose state can be saved goes on with the very batches it gave the first time."""

import pytest
import torch
from torch import nn, optim
from torchdata.stateful_dataloader import StatefulDataLoader

import torchcopy as tc
from bitwise import bits, differences
from training_runs import CLASSES, FEATURES, MODES, everyday_model, seed_everything

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata's own call
]


class Digits(torch.utils.data.Dataset):
    """Samples that are seen apart by their values."""

    def __init__(self, count=28):
        numbers = torch.Generator().manual_seed(1)
        self.samples = torch.randn(count, FEATURES, generator=numbers)
        self.targets = torch.randint(CLASSES, (count,), generator=numbers)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, k):
        return self.samples[k], self.targets[k]


class LoadedRun:
    """Trains on the batches of a loader, epoch after epoch; a restored one starts again in the midst of one."""

    def __init__(self, workers=0, generator=None):
        seed_everything()
        self.model = everyday_model()
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.01, fused=True)
        self.loader = StatefulDataLoader(
            Digits(), batch_size=4, shuffle=True, num_workers=workers, generator=generator, drop_last=True
        )
        self.parts = {"model": self.model, "optimizer": self.optimizer, "loader": self.loader}
        if generator is not None:
            self.parts = {"generator": generator, **self.parts}
        self.batches = None

    def train(self, steps):
        seen = []
        for _ in range(steps):
            batch = next(self.batches, None) if self.batches is not None else None
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            x, target = batch
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), target)
            loss.backward()
            self.optimizer.step()
            seen.append((x, loss.detach()))
        return bits(seen)

    def bits(self):
        return bits([self.model.state_dict(), self.optimizer.state_dict(), torch.get_rng_state()])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("own_generator", [False, True], ids=["shared-generator", "own-generator"])
@pytest.mark.parametrize("before", [0, 3, 7, 10], ids="taken-after-{}".format)
def test_training_goes_on_with_the_same_batches(mode, own_generator, before):
    """7 batches are an epoch: taken before the first, within one, at its end, and in the second."""
    run = LoadedRun(generator=torch.Generator().manual_seed(5) if own_generator else None)
    history = tc.History(**run.parts, mode=mode)
    run.train(before)
    snapshot = history.take()
    here = run.bits()
    seen = run.train(17)
    there = run.bits()
    assert differences(here, there)
    for _ in range(2):
        snapshot.restore()
        run.batches = iter(run.loader)
        assert differences(run.bits(), here) == []
        assert differences(run.train(17), seen) == []
        assert differences(run.bits(), there) == []


@pytest.mark.parametrize("mode", MODES)
def test_training_goes_on_with_worker_processes(mode):
    """Workers are forked while the bytes of a background snapshot are on their way."""
    run = LoadedRun(workers=2)
    history = tc.History(**run.parts, mode=mode)
    run.train(3)
    snapshot = history.take()
    seen, there = run.train(6), run.bits()
    snapshot.restore()
    run.batches = iter(run.loader)
    assert differences(run.train(6), seen) == []
    assert differences(run.bits(), there) == []
