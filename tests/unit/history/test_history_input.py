"""What cannot be is refused in one clear line, and nothing is lost or half done."""

import collections
import dataclasses
import threading

import numpy as np
import pytest
import torch
from torch import nn, optim

import torchcopy as tc
from bitwise import bits, differences
from training_runs import MODES

OTHER = nn.Linear(2, 1)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


class OnlyReads:
    def state_dict(self):
        return {}


class OnlyWrites:
    def load_state_dict(self, state):
        pass


class Stateless:
    pass


@dataclasses.dataclass
class Settings:
    rate: float = 0.1


def case(options, message):
    return pytest.param(options, message, id=", ".join(f"{k}={v!r}"[:30] for k, v in options.items()) or "nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        case({}, "a history needs something to take: History(model=model, optimizer=optimizer)"),
        case({"rng": True}, "a history needs something to take: History(model=model, optimizer=optimizer)"),
        case({"mode": "fast"}, "`mode` must be one of 'eager', 'lazy', 'background'; got 'fast'"),
        case({"mode": None}, "`mode` must be one of 'eager', 'lazy', 'background'; got None"),
        case({"mode": ["lazy"]}, "`mode` must be one of 'eager', 'lazy', 'background'; got ['lazy']"),
        case({"keep": 0}, "`keep` must be a number of snapshots from 1 on, or None for all of them; got 0"),
        case({"keep": -3}, "`keep` must be a number of snapshots from 1 on, or None for all of them; got -3"),
        case({"keep": 2.0}, "`keep` must be a number of snapshots from 1 on, or None for all of them; got 2.0"),
        case({"keep": True}, "`keep` must be a number of snapshots from 1 on, or None for all of them; got True"),
        case({"keep": "3"}, "`keep` must be a number of snapshots from 1 on, or None for all of them; got '3'"),
        case({"keep_best": "loss"}, "`keep_best` must be a dict such as {\"val_loss\": \"min\"}; got 'loss'"),
        case({"keep_best": ["loss"]}, "`keep_best` must be a dict such as {\"val_loss\": \"min\"}; got ['loss']"),
        case({"keep_best": {"loss": "low"}}, "`keep_best['loss']` must be 'min' or 'max'; got 'low'"),
        case({"keep_best": {"loss": ["min"]}}, "`keep_best['loss']` must be 'min' or 'max'; got ['min']"),
        case({"keep_best": {3: "min"}}, "`keep_best` maps the names of metrics to 'min' or 'max'; got the name 3"),
        case({"max_bytes": -1}, "`max_bytes` must be a number of bytes, or None; got -1"),
        case({"max_bytes": "1GB"}, "`max_bytes` must be a number of bytes, or None; got '1GB'"),
        case({"max_bytes": 1e9}, "`max_bytes` must be a number of bytes, or None; got 1000000000.0"),
        case({"rng": 1}, "`rng` must be True or False; got 1"),
        case({"rng": torch.Generator()}, "`rng` must be True or False; got <torch._C.Generator object at"),
        case({"device": "gpu"}, "'gpu'"),
        case({"device": 3.5}, "3.5"),
        case(
            {"device": "cpu", "mode": "lazy"},
            "the lazy mode moves no bytes: use mode='background' or 'eager' with `device`",
        ),
        case({"model": nn.Linear}, "`model` is a class, Linear: give an object that has a state"),
        case({"model": lambda: nn.Linear(1, 1)}, "`model` is a function: give an object that has a state"),
        case({"meter": OnlyReads()}, "`meter`, a OnlyReads, has no `load_state_dict`: it could not be restored"),
        case({"meter": OnlyWrites()}, "`meter`, a OnlyWrites, has no `state_dict`: it could not be restored"),
        case({"meter": Stateless()}, "`meter`, a Stateless, has no `state_dict` and no `load_state_dict`"),
        case({"meter": Settings()}, "`meter`, a Settings, has no `state_dict` and no `load_state_dict`"),
        case({"lock": threading.Lock()}, "`lock`, a lock, has no `state_dict` and no `load_state_dict`"),
        case({"numbers": iter([1, 2])}, "`numbers`, a list_iterator, has no `state_dict` and no `load_state_dict`"),
        case({"parameters": nn.Linear(1, 1).parameters()}, "`parameters`, a generator, has no `state_dict` and no"),
        case({"past": collections.deque([1])}, "`past`, a deque, has no `state_dict` and no `load_state_dict`"),
        case({"seen": {1, 2}}, "`seen`, a set, has no `state_dict` and no `load_state_dict`"),
    ],
)  # fmt: skip
def test_a_history_of_what_cannot_be(options, message):
    wants_more = not options.keys() & {"model", "meter", "lock", "numbers", "parameters", "past", "seen"}
    model = {} if options in ({}, {"rng": True}) or not wants_more else {"model": nn.Linear(1, 1)}
    with pytest.raises(tc.InputError) as raised:
        tc.History(**model, **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_name_of_the_shared_generators_is_taken():
    with pytest.raises(tc.InputError, match=r"^`rng` must be True or False; got .*"):
        tc.History(model=nn.Linear(1, 1), rng=torch.Generator())


class Small:
    """A history with two snapshots, and what must not change when something is refused."""

    def __init__(self, mode, **options):
        self.model = nn.Linear(2, 1)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.values = {"epoch": 1, "seen": torch.zeros(2)}
        self.history = tc.History(
            model=self.model, optimizer=self.optimizer, values=self.values, mode=mode, keep=2, **options
        )
        for step in range(2):
            self.values["epoch"] = step
            self.values["seen"].add_(1)
            self.history.take(step=step, loss=1.0 - step)
        self.history.wait()
        self.before = self.bits()

    def bits(self):
        state = [self.model.state_dict(), self.optimizer.state_dict(), self.values, torch.get_rng_state()]
        snapshots = [[s.number, s.labels, *(s.state(name) for name in s.parts)] for s in self.history]
        return bits([state, snapshots])

    def assert_refused(self, call, message, kind=tc.InputError):
        with pytest.raises(kind) as raised:
            call()
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)
        assert differences(self.bits(), self.before) == []


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        case({"loss": torch.ones(2)}, "`loss` must be a number, a string or None; got one with 2 elements"),
        case({"loss": torch.ones(0)}, "`loss` must be a number, a string or None; got one with 0 elements"),
        case({"loss": np.ones((2, 3))}, "`loss` must be a number, a string or None; got one with 6 elements"),
        case({"loss": [1.0]}, "`loss` must be a number, a string or None; got list: [1.0]"),
        case({"loss": {"a": 1}}, "`loss` must be a number, a string or None; got dict: {'a': 1}"),
        case({"loss": -(10**400)}, "`loss` must be a number that a float can hold; got an int of 1329 bits"),
        case({"loss": 1j}, "`loss` must be a number, a string or None; got complex: 1j"),
        case({"loss": torch.tensor(1j)}, "`loss` must be a number, a string or None; got complex: 1j"),
        case({"loss": b"low"}, "`loss` must be a number, a string or None; got bytes: b'low'"),
        case({"loss": object}, "`loss` must be a number, a string or None; got type: <class 'object'>"),
        case({"loss": lambda: 1}, "`loss` must be a number, a string or None; got function: "),
        case({"step": 3, "loss": (1,)}, "`loss` must be a number, a string or None; got tuple: (1,)"),
        case(
            {"loss": torch.ones(1, device="meta")}, "`loss` must be a number, a string or None; got a meta tensor"
        ),
    ],
)
def test_labels_that_cannot_be_kept(mode, labels, message):
    small = Small(mode)
    small.assert_refused(lambda: small.history.take(**labels), message)
    assert small.history.take().number == 2


class Failing:
    """Its state cannot be read, or cannot be copied."""

    def __init__(self, state=None, error=None):
        self.state, self.error = state or {}, None
        self.later = error

    def state_dict(self):
        if self.error:
            raise self.error
        return self.state

    def load_state_dict(self, state):
        self.state = state


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_part_whose_state_cannot_be_read(mode, where):
    """The error is its own; no snapshot is lost to it, and the next `take` goes as if it had not been."""
    failing = Failing(error=ValueError("no state now"))
    small = None
    parts = {"failing": failing} if where == "first" else {}
    small = Small(mode, **parts)
    if where == "last":
        small.history._parts["failing"] = tc.History(failing=failing, rng=False)._parts["failing"]
    failing.error = failing.later
    with pytest.raises(ValueError, match="no state now"):
        small.history.take(step=9)
    assert [s.number for s in small.history] == [0, 1]
    failing.error = None
    assert differences(small.bits(), small.before) == []
    assert small.history.take(step=9).number == 2


@pytest.mark.parametrize(
    ("state", "message"),
    [
        pytest.param({"a": [1, {"lock": threading.Lock()}]}, "failing['a'][1]['lock']", id="lock"),
        pytest.param({"open": (k for k in range(3))}, "failing['open']", id="generator"),
        pytest.param({"thread": threading.Thread()}, "failing['thread']", id="thread"),
    ],
)
def test_a_part_whose_state_cannot_be_copied(mode, state, message):
    small = Small(mode, failing=(failing := Failing()))
    failing.state = state
    with pytest.raises(tc.InputError) as raised:
        small.history.take(step=9)
    assert message in str(raised.value)
    assert [s.number for s in small.history] == [0, 1]
    failing.state = {}
    assert differences(small.bits(), small.before) == []
    assert small.history.take().number == 2


def test_a_state_that_holds_itself(mode):
    small = Small(mode, failing=(failing := Failing()))
    failing.state = {"me": failing.state}
    failing.state["me"]["me"] = failing.state
    with pytest.raises(tc.InputError, match=r"^the state at failing\['me'\]\['me'\].* holds itself"):
        small.history.take()
    assert [s.number for s in small.history] == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda h: h.at(), "say which snapshot, as in history.at(step=100)", id="at nothing"),
        pytest.param(lambda h: h.at(step=7), "no snapshot has step=7: there are step=0; step=1", id="at 7"),
        pytest.param(lambda h: h.at(step="1"), "no snapshot has step='1': there are step=0; step=1", id="at text"),
        pytest.param(
            lambda h: h.at(epoch=1), "no snapshot has epoch=1: there are no such label; no", id="at epoch"
        ),
        pytest.param(lambda h: h.at(step=None), "no snapshot has step=None: there are step=0", id="at None"),
        pytest.param(
            lambda h: h.at(step=1, loss=5),
            "no snapshot has step=1, loss=5: there are step=0, loss=1.0; ",
            id="at two",
        ),
        pytest.param(lambda h: h.at(step=torch.tensor([0, 1])), "`step` must be a number", id="at tensor"),
        pytest.param(lambda h: h.at(step=np.arange(2)), "`step` must be a number", id="at array"),
        pytest.param(lambda h: h.at(step=[1]), "`step` must be a number", id="at list"),
        pytest.param(lambda h: h.best("loss"), "say what is best: history.best('loss', 'min') or 'max'", id="best"),
        pytest.param(lambda h: h.best("loss", "low"), "'min') or 'max'; got 'low'", id="best low"),
        pytest.param(lambda h: h.best("loss", ["min"]), "'min') or 'max'; got ['min']", id="best list"),
        pytest.param(
            lambda h: h.best("f1", "max"), "no snapshot has a number for 'f1': there are 'loss', 'step'", id="f1"
        ),
        pytest.param(
            lambda h: h.best(None, "max"),
            "`metric` must be the name of a label, such as 'val_loss'; got None",
            id="best None",
        ),
        pytest.param(
            lambda h: h.best(["loss"], "max"),
            "`metric` must be the name of a label, such as 'val_loss'; got ['loss']",
            id="best of list",
        ),
        pytest.param(lambda h: h.remove(None), "None is not in this history", id="remove None"),
        pytest.param(lambda h: h.remove(0), "0 is not in this history", id="remove number"),
    ],
)
def test_snapshots_that_are_not_there(mode, call, message):
    small = Small(mode)
    small.assert_refused(lambda: call(small.history), message)


def test_a_history_without_snapshots():
    history = tc.History(values=[1])
    with pytest.raises(tc.InputError, match=r"^no snapshot has step=1: there are none$"):
        history.at(step=1)
    with pytest.raises(tc.InputError, match=r"^no snapshot has a number for 'loss': there are no metrics$"):
        history.best("loss", "min")
    with pytest.raises(IndexError, match="there is no snapshot -1: the history has 0"):
        history[-1]


def test_labels_are_found_as_they_were_given():
    history = tc.History(values=[1], keep=None)
    taken = [history.take(step=torch.tensor(k), name=f"s{k}") for k in range(3)]
    assert history.at(step=1) is taken[1]
    assert history.at(step=torch.tensor(2)) is taken[2]
    assert history.at(step=np.int64(0), name="s0") is taken[0]
    assert history.at(name="s1") is taken[1]


RESTORES = {
    "unknown": (
        lambda s: s.restore(net=OTHER),
        "this snapshot has no part 'net': it has model, optimizer, values, rng",
    ),
    "class": (lambda s: s.restore(model=nn.Linear), "`model` is a class, Linear"),
    "None": (lambda s: s.restore(model=None), "`model` was taken from a module; got plain values: NoneType"),
    "tensor": (
        lambda s: s.restore(model=torch.ones(2)),
        "`model` was taken from a module; got plain values: Tensor",
    ),
    "dict": (lambda s: s.restore(model={"weight": torch.ones(1, 2)}), "`model` was taken from a module; got plain"),
    "module for optimizer": (
        lambda s: s.restore(optimizer=OTHER),
        "was taken from an optimizer; got a module: Linear",
    ),
    "module for values": (lambda s: s.restore(values=OTHER), "was taken from plain values; got a module: Linear"),
    "function": (lambda s: s.restore(model=lambda: 1), "`model` is a function"),
    "half": (lambda s: s.restore(model=OnlyReads()), "has no `load_state_dict`"),
    "generator for rng": (
        lambda s: s.restore(rng=torch.Generator()),
        "`rng` was taken from the shared random generators; got a random generator: Generator",
    ),
}
STATES = {
    "unknown": (
        lambda s: s.state_dict("net"),
        "this snapshot has no part 'net': it has model, optimizer, values, rng",
    ),
    "number": (lambda s: s.state_dict(3), "this snapshot has no part 3: it has model"),
    "list": (lambda s: s.state_dict(["model"]), "this snapshot has no part ['model']: it has model"),
    "path": (lambda s: s.state_dict("model.weight"), "this snapshot has no part 'model.weight': it has model"),
    "object": (lambda s: s.state_dict(OTHER), "this snapshot has no part Linear(in_features=2"),
    "upper case": (lambda s: s.state_dict("Model"), "this snapshot has no part 'Model': it has model"),
    "tuple": (lambda s: s.state(("model", "optimizer")), "this snapshot has no part ('model', 'optimizer')"),
    "empty": (lambda s: s.state(""), "this snapshot has no part ''"),
    "False": (lambda s: s.state(False), "this snapshot has no part False"),
    "bytes": (lambda s: s.state(b"model"), "this snapshot has no part b'model'"),
}
BUILDS = {
    "nothing": (lambda s: s.build(), "say what to build, as in build(model=Net)"),
    "unknown": (lambda s: s.build(net=nn.Linear), "this snapshot has no part 'net'"),
    "object": (lambda s: s.build(model=OTHER), "`model` must be what makes such an object, a class or a function"),
    "None": (lambda s: s.build(model=None), "`model` must be what makes such an object, a class or a function"),
    "text": (lambda s: s.build(model="Net"), "`model` must be what makes such an object, a class or a function"),
    "made None": (
        lambda s: s.build(model=lambda: None),
        "`model` was taken from a module; its factory made a None",
    ),
    "made dict": (lambda s: s.build(model=dict), "`model` was taken from a module; its factory made a dict"),
    "made class": (lambda s: s.build(model=lambda: nn.Linear), "`model` is a class, Linear"),
    "made swapped": (
        lambda s: s.build(optimizer=lambda: OTHER),
        "`optimizer` was taken from an optimizer; its fac",
    ),
    "cycle": (
        lambda s: s.build(model=lambda optimizer: 1, optimizer=lambda model: 1),
        "the factories of model, optimizer wait for each other",
    ),
    "other part": (
        lambda s: s.build(optimizer=lambda model: 1),
        "the factory of `optimizer` needs `model`, which is",
    ),
    "argument": (lambda s: s.build(model=lambda size: 1), "the factory of `model` needs `size`, which is none of"),
    "class with arguments": (
        lambda s: s.build(model=nn.Linear),
        "the factory of `model` needs `in_features`, which",
    ),
    "itself": (lambda s: s.build(model=lambda model: model), "the factory of `model` needs `model`, which is none"),
}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(*each, id=f"{kind} {name}")
        for kind, cases in (("restore", RESTORES), ("state", STATES), ("build", BUILDS))
        for name, each in cases.items()
    ],
)
def test_objects_that_are_of_another_kind(mode, call, message):
    small = Small(mode)
    small.assert_refused(lambda: call(small.history[-1]), message)


def test_built_objects_that_do_not_fit(mode):
    small = Small(mode)
    message = "model['weight']: expected float32[3, 2] as in the object, found float32[1, 2]"
    with pytest.raises(tc.RestoreError) as raised:
        small.history[-1].build(model=lambda: nn.Linear(2, 3))
    assert message in str(raised.value)
    assert differences(small.bits(), small.before) == []


def test_a_factory_that_raises(mode):
    """Its error is its own, and no random number was drawn."""
    small = Small(mode)

    def factory():
        torch.rand(3)
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        small.history[-1].build(model=factory)
    assert differences(small.bits(), small.before) == []


def test_which_part_has_to_be_said():
    one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    snapshot = tc.History(one=one, two=two).take()
    for call in (snapshot.state_dict, snapshot.state):
        with pytest.raises(tc.InputError, match=r"^say which part: this snapshot has one, two, rng$"):
            call()
    assert torch.equal(tc.History(one=one, other=[1]).take().state_dict()["weight"], one.weight)
    assert tc.History(values=[1, 2]).take().state() == [1, 2]
