"""What a finding of TC101 says of where a state is taken, and of what happens to it; where TC109 says it."""

import pytest
from lint_files import run, write

_AGENT = """
class Agent:
    def __init__(self, model):
        self.model = model
    def weights(self):
        return self.model.state_dict()
    def note(self, kept):
        kept.best = self.model.state_dict()
"""
_TRAINING = """
from agent import Agent
def train(model, optimizer, batches, kept):
    agent = Agent(model)
    best = agent.weights()
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
    agent.model.load_state_dict(best)
"""
_QUEUE = """
import threading
import torch
def train(model, optimizer, batches):
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
        threading.Thread(target=torch.save, args=(model.state_dict(), "last.pt")).start()
"""
_ROUNDS = """
def train(model, optimizer, batches):
    kept = []
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
        kept.append(model.state_dict())
    return kept
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_TRAINING, "`agent.model`, as agent.py:6 takes them, which the training changes until it is loaded"),
        (
            _TRAINING.replace("best = agent.weights()", "agent.note(kept)").replace("(best)", "(kept.best)"),
            "`agent.model`, as agent.py:8 takes them, which the training changes until it is loaded in line 9",
        ),
        (_QUEUE, "those of `model`, which the training changes while a thread saves them"),
        (_ROUNDS, "those of `model`, which the training changes in each round: all that is kept is the last one"),
    ],
)
def test_where_a_state_is_taken_and_what_changes_it(text, said, tmp_path):
    write(tmp_path, agent=_AGENT, train=text)
    (finding,) = run(tmp_path / "train.py", select=("TC101",)).findings
    assert said in finding.message


_AVERAGE = """
class MovingAverage:
    def __init__(self, model):
        self.shadow = {n: p.data for n, p in model.named_parameters()}
    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(0.9).add_(p.data, alpha=0.1)
    def put_in(self, model):
        for n, p in model.named_parameters():
            p.data.copy_(self.shadow[n])
def train(model, optimizer, batches):
    average = MovingAverage(model)
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
        average.update(model)
    average.put_in(model)
"""


@pytest.mark.parametrize(
    ("select", "told", "said"),
    [
        (("TC101", "TC109"), "TC109", "the average of line 7 is written into them"),
        (("TC101",), "TC101", "the training changes until it is loaded"),
    ],
)
def test_an_average_of_the_parameters_themselves_is_told_once(select, told, said, tmp_path):
    write(tmp_path, averages=_AVERAGE)
    (finding,) = run(tmp_path / "averages.py", select=select).findings
    assert finding.code == told
    assert said in finding.message
    assert finding.fixable
    assert not finding.safe
