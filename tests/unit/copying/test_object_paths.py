"""What objects hold, the paths that lead there, and that looking runs nobody's code."""

import collections
import dataclasses
import enum
import functools
import itertools
import sys
import threading
import types
import weakref

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from torchcopy.copying.objects.object_paths import children, find_path, find_paths, held_objects

HELD = ["held"]  # a list: an object that can be found again


class Colour(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "left right")


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("__private", "inner", "unset")

    def __init__(self, inner):
        self.inner = inner
        self.__private = [inner]


class SlottedChild(Slotted):
    __slots__ = ("own",)


@dataclasses.dataclass
class Record:
    inner: object


@dataclasses.dataclass(slots=True)
class SlottedRecord:
    inner: object


class ListChild(list):
    pass


class DictChild(dict):
    pass


def with_attribute(container):
    container.note = HELD
    return container


def function_with(**attributes):
    def function():
        return None

    function.__dict__.update(attributes)
    return function


def closing_over(model):
    return lambda: model


def generator():
    inside = HELD
    yield inside


CASES = {
    "dict": ({"a": HELD}, "['a']"),
    "dict in a dict": ({"a": {3: HELD}}, "['a'][3]"),
    "key of several types": ({(1, "a", None): HELD}, "[(1, 'a', None)]"),
    "enum key": ({Colour.RED: HELD}, "[Colour.RED]"),
    "class key": ({Plain: HELD}, "[Plain]"),
    "dtype key": ({torch.float32: HELD}, "[torch.float32]"),
    "object key": ({1: 2, Plain(): HELD}, "[<Plain 1>]"),
    "tensor key": ({torch.ones(2): HELD}, "[<Tensor 0>]"),
    "long key": ({"k" * 200: HELD}, f"['{'k' * 57}…']"),
    "in a key": ({"a": 1, (Colour.RED, Plain(inner=HELD)): 2}, ".keys()[1][1].inner"),
    "ordered dict": (collections.OrderedDict(a=HELD), "['a']"),
    "default dict": (collections.defaultdict(list, {"a": HELD}), "['a']"),
    "default factory": (collections.defaultdict(HELD.copy), ".<item 0>.__self__"),
    "mapping proxy": (types.MappingProxyType({"a": HELD}), "['a']"),
    "user dict": (collections.UserDict(a=HELD), ".data['a']"),
    "list": ([1, HELD], "[1]"),
    "tuple": ((1, HELD), "[1]"),
    "named tuple": (Pair(1, HELD), ".right"),
    "deque": (collections.deque([1, HELD]), "[1]"),
    "set": ({Pair(1, Colour.RED)}, ".<item 0>.right"),
    "frozen set": (frozenset([(1, Colour.RED)]), ".<item 0>[1]"),
    "list with attributes": (with_attribute(ListChild([HELD.copy()])), ".note"),
    "dict with attributes": (with_attribute(DictChild(a=1)), ".note"),
    "items of a list's child": (ListChild([1, HELD]), "[1]"),
    "instance": (Plain(inner=HELD), ".inner"),
    "attribute Python cannot write": (Plain(**{"a b": HELD}), ".__dict__['a b']"),
    "namespace": (types.SimpleNamespace(inner=HELD), ".inner"),
    "slots": (Slotted(HELD), ".inner"),
    "inherited slots": (SlottedChild(HELD), ".inner"),
    "dataclass": (Record(HELD), ".inner"),
    "dataclass with slots": (SlottedRecord(HELD), ".inner"),
    "exception": (ValueError(HELD), ".args[0]"),
    "array of objects": (np.array([[1, None], [2, Plain(inner=HELD)]], dtype=object), "[1, 1].inner"),
    "partial": (functools.partial(print, 1, HELD), ".args[1]"),
    "partial's keyword": (functools.partial(print, end=HELD), ".keywords['end']"),
    "bound method": (Plain(inner=HELD).__eq__.__self__, ".inner"),
    "built-in method": (HELD.append, ".__self__"),
    "closure": (closing_over(HELD), ".__closure__['model']"),
    "cell": (types.CellType(HELD), ".cell_contents"),
    "function's attribute": (function_with(inner=HELD), ".inner"),
    "wrapped function": (functools.wraps(closing_over(HELD))(lambda: 0), ".__wrapped__.__closure__['model']"),
    "default": ((lambda a, b=HELD: b), ".__defaults__[0]"),
    "keyword default": ((lambda *, b=HELD: b), ".__kwdefaults__['b']"),
    "global": ((lambda: HELD), ".__globals__['HELD']"),
    "global of an inner function": ((lambda: [(lambda: HELD) for _ in range(3)]), ".__globals__['HELD']"),
    "property": (property(closing_over(HELD)), ".fget.__closure__['model']"),
    "static method": (staticmethod(closing_over(HELD)), ".__func__.__closure__['model']"),
    "cached function's wrapped one": (
        functools.lru_cache(closing_over(HELD)),
        ".__wrapped__.__closure__['model']",
    ),
    "iterator": (iter([HELD]), ".<item 0>[0]"),
    "itertools": (itertools.repeat(HELD), ".<item 0>"),
    "view of a dict": ({"a": HELD}.values(), ".<item 0>['a']"),
}
TARGETS = {"set": Colour.RED, "frozen set": Colour.RED}  # what can be in a set


@pytest.mark.parametrize("name", CASES)
def test_path_as_python_writes_it(name):
    root, path = CASES[name]
    target = TARGETS.get(name, HELD)
    assert find_path(root, target, name="x", through_functions=True) == f"x{path}"


def test_the_root_is_found_by_its_name():
    assert find_path(HELD, HELD, through_functions=False) == "source"
    assert find_path(3, 3, name="obj", through_functions=False) == "obj"


def test_what_is_not_there_is_not_found():
    assert find_path({"a": [1, 2]}, HELD, through_functions=True) is None
    assert find_path({"a": 3}, 3, through_functions=True) is None  # one 3 is like another


def test_a_path_that_is_a_python_expression_leads_to_the_object():
    lock = threading.Lock()
    obj = {"trainer": Plain(state=Pair([Slotted(lock)], {("a", 1): 2}))}
    path = find_path(obj, lock, name="obj", through_functions=False)
    assert path == "obj['trainer'].state.left[0].inner"
    assert eval(path) is lock


def test_the_shortest_path_wins():
    deep = {"a": {"b": {"c": HELD}}, "z": [HELD]}
    assert find_path(deep, HELD, through_functions=False) == "source['z'][0]"


# --- what a deep copy keeps by reference -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "root",
    [closing_over(HELD), HELD.append, property(closing_over(HELD)), lambda: HELD],
    ids=["function", "built-in method", "property", "global"],
)
def test_functions_are_met_but_only_entered_when_asked(root):
    assert find_path([root], root, through_functions=False) == "source[0]"
    assert find_path([root], HELD, through_functions=False) is None
    assert find_path([root], HELD, through_functions=True) is not None


def test_a_bound_method_is_bound_to_a_part_of_what_is_copied():
    module = nn.Linear(2, 2)
    root = {"hook": module.forward}
    assert find_path(root, module.weight, through_functions=False) == "source['hook'].__self__.weight"
    assert find_path(root, nn.Linear.forward, through_functions=False) == "source['hook'].__func__"


def test_weak_references():
    module = nn.Linear(2, 2)
    assert find_path([weakref.ref(module)], module, through_functions=False) is None
    assert find_path([weakref.ref(module)], module.bias, through_functions=True) == "source[0]().bias"
    assert find_path([weakref.proxy(module)], module.bias, through_functions=True) == "source[0].bias"
    method = weakref.WeakMethod(module.forward)
    assert find_path([method], module.bias, through_functions=True) == "source[0]().bias"
    values = weakref.WeakValueDictionary(a=module)
    assert find_path(values, module, through_functions=True) == "source.data['a']()"


def test_dead_weak_references_hold_nothing():
    dead = [weakref.ref(Plain()), weakref.proxy(Plain())]
    assert [list(children(each)) for each in dead[:1]] == [[]]
    assert find_path(dead, HELD, through_functions=True) is None


def test_a_class_holds_its_attributes_and_an_instance_does_not_hold_its_class():
    class Registry:
        entries = (HELD,)

    class Child(Registry):
        pass

    assert find_path(Child(), HELD, through_functions=True) is None
    assert find_path(Child, HELD, name="Child", through_functions=True) == "Child.entries[0]"
    assert find_path([Child], HELD, through_functions=False) is None


def test_names_of_attributes_are_not_global_variables():
    assert find_path(lambda x: x.HELD, HELD, through_functions=True) is None


def test_globals_of_libraries_are_left_alone():
    import statistics

    assert ".__globals__" not in str(list(children(statistics.mean)))
    assert ".__globals__" not in str(list(children(nn.functional.relu)))


# --- PyTorch's own --------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.BatchNorm1d(2))
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 2)})
        self.extra = nn.ParameterList([torch.ones(2), torch.zeros(2)])
        self.named = nn.ParameterDict({"w": torch.ones(2)})
        self.cache = {"last": torch.ones(2)}


MODULE_PATHS = {
    "parameter": (lambda m: m.layers[0].weight, "source.layers[0].weight"),
    "module": (lambda m: m.layers[1], "source.layers[1]"),
    "buffer": (lambda m: m.layers[2].running_mean, "source.layers[2].running_mean"),
    "in a module dict": (lambda m: m.heads["a"].bias, "source.heads['a'].bias"),
    "in a parameter list": (lambda m: m.extra[1], "source.extra[1]"),
    "in a parameter dict": (lambda m: m.named["w"], "source.named['w']"),
    "plain attribute": (lambda m: m.cache["last"], "source.cache['last']"),
}


@pytest.mark.parametrize("name", MODULE_PATHS)
def test_modules_have_the_names_of_their_user(name):
    model = Net()
    get, path = MODULE_PATHS[name]
    assert find_path(model, get(model), through_functions=False) == path
    assert eval(path, {"source": model}) is get(model)


def test_a_name_that_only_get_submodule_can_write():
    model = nn.Module()
    model.add_module("0", nn.Linear(2, 2))
    assert find_path(model, model.get_submodule("0").bias, through_functions=False) == "source.0.bias"


def test_hooks():
    model = Net()
    hook = closing_over(HELD)
    handle = model.layers.register_forward_hook(hook)
    assert find_path(model, hook, through_functions=False) == f"source.layers._forward_hooks[{handle.id}]"
    linear = model.layers[0]
    handle = linear.weight.register_hook(hook)
    assert find_path(linear, hook, through_functions=False) == f"source.weight._backward_hooks[{handle.id}]"


def test_optimizers():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()

    def path(target):
        return find_path({"optimizer": optimizer}, target, through_functions=False)

    assert path(model.bias) == "source['optimizer'].param_groups[0]['params'][1]"
    assert path(optimizer.state[model.bias]["exp_avg"]) == "source['optimizer'].state[1]['exp_avg']"
    optimizer.state["steps"] = HELD
    optimizer.state[Plain(inner=CASES)] = 1
    assert path(HELD) == "source['optimizer'].state['steps']"
    assert path(CASES) == "source['optimizer'].state.keys()[3].inner"
    assert find_path([optimizer, {"model": [model]}], model.bias, through_functions=False).endswith(".bias")


def test_tensors():
    inner, leaf = Plain(), torch.ones(2, requires_grad=True)
    leaf.note = inner
    leaf.sum().backward()
    assert find_path([leaf], inner, through_functions=False) == "source[0].note"
    assert find_path([leaf], leaf.grad, through_functions=False) == "source[0].grad"
    assert find_path([leaf * 2], inner, through_functions=False) is None  # and no warning about `.grad`


# --- how it looks ----------------------------------------------------------------------------------------------


class Hostile:
    """Every method that an innocent look could call fails the test."""

    def __init__(self, inner):
        self.__dict__["inner"] = inner

    def _refuse(self, *args):
        raise AssertionError("looking at an object called a method of its class")

    __getattr__ = __getattribute__ = __eq__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = _refuse
    __repr__ = __str__ = __reduce__ = __reduce_ex__ = __getstate__ = __call__ = __format__ = _refuse
    __instancecheck__ = __sizeof__ = __dir__ = _refuse

    def __init_subclass__(cls):
        cls.calls = property(cls._refuse)

    def __hash__(self):
        if sys._getframe(1).f_code.co_filename != __file__:
            self._refuse()
        return 7


def hostile(inner):
    made = object.__new__(Hostile)
    vars(Hostile)["__dict__"].__get__(made)["inner"] = inner
    return made


class HostileDict(dict):
    items = keys = values = get = __iter__ = __getitem__ = __len__ = __contains__ = Hostile._refuse


class HostileList(list):
    __iter__ = __getitem__ = __len__ = __contains__ = Hostile._refuse


class HostileMeta(type):
    __eq__ = __instancecheck__ = __subclasscheck__ = __getattribute__ = Hostile._refuse
    __hash__ = type.__hash__


def of_a_hostile_metaclass(inner):
    class HostileClass(metaclass=HostileMeta):  # in here, for pytest looks at the classes of a module
        def __init__(self):
            self.inner = inner

    return HostileClass()


class LazyProperty:
    def __init__(self, inner):
        self._inner = inner

    @property
    def __dict__(self):
        raise AssertionError("looking at an object called a property")

    value = property(Hostile._refuse)


HOSTILE = {
    "attribute": (lambda: hostile(HELD), "x.inner"),
    "dict": (lambda: HostileDict(a=HELD), "x['a']"),
    "list": (lambda: HostileList([HELD]), "x[0]"),
    "metaclass": (lambda: of_a_hostile_metaclass(HELD), "x.inner"),
    "key": (lambda: {hostile(1): HELD}, "x[<Hostile 0>]"),
    "in a key": (lambda: {hostile(HELD): 1}, "x.keys()[0].inner"),
    "in a set": (lambda: {hostile(HELD)}, "x.<item 0>.inner"),
    "items": (lambda: [hostile(1), hostile(2), hostile(HELD)], "x[2].inner"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_code_of_the_objects_runs(name):
    make, path = HOSTILE[name]
    assert find_path(make(), HELD, name="x", through_functions=True) == path


def test_a_dict_that_is_a_property_is_not_read():
    assert find_path(LazyProperty(HELD), HELD, through_functions=True)  # only the garbage collector knows of it


def test_a_hostile_target_is_looked_for_by_identity():
    target = hostile(1)
    assert find_path([hostile(1), target], target, through_functions=False) == "source[1]"


def test_a_half_made_object_holds_what_can_be_seen():
    half_made = nn.Linear.__new__(nn.Linear)
    without_groups = torch.optim.SGD.__new__(torch.optim.SGD)
    without_groups.state, without_groups.param_groups = {}, [{}]
    assert find_path([half_made, without_groups, HELD], HELD, through_functions=False) == "source[2]"


def test_tensor_subclasses_are_not_asked():
    class Asked(Tensor):
        @classmethod
        def __torch_function__(cls, function, kinds, args=(), kwargs=None):
            raise AssertionError(f"looking at a tensor called {function}")

    tensor = torch.ones(2).as_subclass(Asked)
    object.__setattr__(tensor, "note", HELD)
    assert find_path([tensor], HELD, through_functions=False) == "source[0].note"


def test_nothing_is_changed_by_looking():
    model = Net()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    find_path(model, HELD, through_functions=True)
    after = {name: dict(vars(module)) for name, module in model.named_modules()}
    assert list(before) == list(after)
    assert all(before[name].keys() == after[name].keys() for name in before)
    assert "__dict__" not in dir(Slotted(1))


@pytest.mark.parametrize("through_functions", [False, True])
def test_modules_frames_and_arrays_of_numbers_are_not_entered(through_functions):
    closed = [sys, sys._getframe(), np.ones(3), "text", torch.ones(2)]
    for each in closed[:4]:
        assert list(children(each)) == []
    assert find_path(closed, HELD, through_functions=through_functions) is None
    assert find_path(closed, sys, through_functions=through_functions) == "source[0]"


def test_cycles_end():
    a, b = Plain(), []
    a.b, a.self = b, a
    b.extend([a, b, {"a": a}])
    assert find_path(a, HELD, through_functions=True) is None
    b.append(HELD)
    assert find_path(a, HELD, through_functions=True) == "source.b[3]"


def test_no_limit_on_depth():
    nested = target = Plain()
    for _ in range(5_000):
        nested = [nested]
    assert find_path(nested, target, through_functions=False) == "source" + "[0]" * 5_000


def test_long_containers_are_looked_through():
    many = [[k] for k in range(150_000)]
    assert find_path(many, many[-1], through_functions=False) == "source[149999]"
    assert list(children(many, most_items=2)) == [("[0]", many[0]), ("[1]", many[1])]


def test_several_paths_in_one_walk():
    model = Net()
    wanted = {id(model.layers[0].weight), id(model.heads["a"].bias), id(HELD)}
    paths = find_paths(model, wanted, name="model")
    assert sorted(paths.values()) == ["model.heads['a'].bias", "model.layers[0].weight"]
    kinds = find_paths(model, {nn.ReLU}, key=type)
    assert kinds == {nn.ReLU: "source.layers[1]"}


def test_held_objects_are_what_a_deep_copy_copies():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    hook = closing_over(HELD)
    held = held_objects([optimizer, {"hook": hook}])
    assert any(each is model.weight for each in held)
    assert any(each is hook for each in held)
    assert not any(each is HELD for each in held)
    beside = held_objects([optimizer, {"model": model}], passing=(torch.optim.Optimizer,))
    assert any(each is model.weight for each in beside)
    assert not any(each is optimizer for each in beside)
    alone = held_objects([optimizer], passing=(torch.optim.Optimizer,))
    assert not any(each is model.weight for each in alone)
