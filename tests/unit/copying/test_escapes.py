"""The ways on which a copy still reaches its source: found, named, and no others."""

import copy
import functools
import queue
import types
import weakref
from typing import ClassVar
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

from torchcopy.copying.escapes.reports import find_escapes

REGISTRY = {}
CURRENT = None


@pytest.fixture(autouse=True)
def _empty_registry():
    yield
    REGISTRY.clear()
    globals()["CURRENT"] = None


def deep_copied(source):
    """A deep copy, and what it kept by reference; the classes of copied instances are among that."""
    kept = {}

    def keep(x, memo):
        kept[id(x)] = x
        return x

    by_reference = (types.FunctionType, types.BuiltinFunctionType, weakref.ref, property, type)
    with (
        mock.patch.dict(copy._deepcopy_dispatch, dict.fromkeys(by_reference, keep)),
        mock.patch.object(copy, "_deepcopy_atomic", keep),
    ):
        copied = copy.deepcopy(source)
    return copied, list(kept.values())


def tensors_of(source):
    if isinstance(source, nn.Module):
        return [*source.parameters(), *source.buffers()]
    if isinstance(source, Tensor):
        return [source]
    items = source.values() if isinstance(source, dict) else source
    return [t for item in items if isinstance(item, (nn.Module, Tensor, dict, list)) for t in tensors_of(item)]


def escapes_of(source, *also_kept, shared=()):
    copied, kept = deep_copied(source)
    return find_escapes(copied, source, [*kept, *also_kept], tensors_of(source), shared)


def only_escape_of(source, *also_kept):
    (escape,) = escapes_of(source, *also_kept)
    return escape


class Net(nn.Module):
    def __init__(self, **attributes):
        super().__init__()
        self.fc = nn.Linear(2, 3)
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.fc(x)


def net_with(make):
    net = Net()
    net.act = make(net)
    return net


# --- every way there is ----------------------------------------------------------------------------------------


def closure(net):
    return lambda x: net(x)


def closure_over_a_tensor(net):
    weight = net.fc.weight
    return lambda x: x @ weight.t()


def closure_over_a_view(net):
    weight = net.fc.weight.detach()[1:]
    return lambda x: x @ weight.t()


def closure_over_a_state_dict(net):
    best = net.state_dict()
    return lambda: best


def default_argument(net):
    return lambda x, model=net: model(x)


def keyword_default(net):
    return lambda x, *, model=net: model(x)


def function_attribute(net):
    def function():
        return None

    function.model = net
    return function


def wrapper(net):
    return functools.wraps(closure(net))(lambda *args: args)


def partial(net):
    return functools.partial(closure(net), 1)


def weak_reference(net):
    return weakref.ref(net)


def weak_reference_to_a_parameter(net):
    return weakref.ref(net.fc.weight)


def weak_proxy_in_a_closure(net):
    proxy = weakref.proxy(net)
    return lambda x: proxy(x)


def method_of_a_list(net):
    return [net.fc.weight].append


def method_of_a_tensor(net):
    return net.fc.weight.add_


def global_variable(net):
    global CURRENT
    CURRENT = net
    return lambda x: CURRENT(x)


def global_registry(net):
    REGISTRY["models"] = [net]
    return lambda x: REGISTRY["models"][0](x)


def global_in_an_inner_function(net):
    REGISTRY["net"] = net
    return lambda x: [(lambda: REGISTRY["net"](x)) for _ in range(2)]


def look_up():
    return REGISTRY["net"]


def global_of_a_function_it_calls(net):
    REGISTRY["net"] = net
    return lambda x: look_up()(x)


def property_of(net):
    return property(closure(net))


def class_with_the_source(net):
    return type("Holder", (), {"model": net})


def class_with_a_method(net):
    return type("Holder", (), {"call": closure(net)})


def cached_function(net):
    cached = functools.lru_cache(lambda: net)
    cached()
    return [cached]


WAYS = {
    closure: ("closure", "copy.act.__closure__['net'].fc.weight", 1),
    closure_over_a_tensor: ("closure", "copy.act.__closure__['weight']", 0),
    closure_over_a_view: ("closure", "copy.act.__closure__['weight']", 0),
    closure_over_a_state_dict: ("closure", "copy.act.__closure__['best']['fc.weight']", 1),
    default_argument: ("default argument", "copy.act.__defaults__[0].fc.weight", 1),
    keyword_default: ("default argument", "copy.act.__kwdefaults__['model'].fc.weight", 1),
    function_attribute: ("function attribute", "copy.act.model.fc.weight", 1),
    wrapper: ("function attribute", "copy.act.__wrapped__.__closure__['net'].fc.weight", 1),
    partial: ("closure", "copy.act.func.__closure__['net'].fc.weight", 1),
    weak_reference: ("weak reference", "copy.act().fc.weight", 1),
    weak_reference_to_a_parameter: ("weak reference", "copy.act()", 0),
    weak_proxy_in_a_closure: ("closure", "copy.act.__closure__['proxy'].fc.weight", 1),
    method_of_a_list: ("bound method", "copy.act.__self__[0]", 0),
    method_of_a_tensor: ("bound method", "copy.act.__self__", 0),
    global_variable: ("global variable", "copy.act.__globals__['CURRENT'].fc.weight", 1),
    global_registry: ("global variable", "copy.act.__globals__['REGISTRY']['models'][0].fc.weight", 1),
    global_in_an_inner_function: ("global variable", "copy.act.__globals__['REGISTRY']['net'].fc.weight", 1),
    global_of_a_function_it_calls: (
        "global variable",
        "copy.act.__globals__['look_up'].__globals__['REGISTRY']['net'].fc.weight",
        1,
    ),
    property_of: ("property", "copy.act.fget.__closure__['net'].fc.weight", 1),
    class_with_the_source: ("class attribute", "copy.act.model.fc.weight", 1),
    class_with_a_method: ("closure", "copy.act.call.__closure__['net'].fc.weight", 1),
}


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_every_way_is_found_and_named(make):
    net = net_with(make)
    through, copy_path, more = WAYS[make]
    escape = only_escape_of(net)
    assert (escape.through, escape.copy_path, escape.more_tensors) == (through, copy_path, more)
    assert escape.source_path == "source.fc.weight"
    shape = "2, 2" if make is closure_over_a_view else "3, 2"
    assert escape.tensor == f"float32[{shape}] cpu"


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_what_is_written_there_reaches_the_source(make):
    """The escapes are real: the path leads from the copy to the source's memory."""
    net = net_with(make)
    copied, kept = deep_copied(net)
    (escape,) = find_escapes(copied, net, kept, tensors_of(net))
    reached = _follow(copied, escape.copy_path)
    with torch.no_grad():
        net.fc.weight.fill_(7.0)
        assert bool((reached == 7.0).all())
        copied.fc.weight.fill_(3.0)
        assert bool((reached == 7.0).all())


def _follow(root, path):
    """Where a path leads; closures and globals are named in it."""

    class Named:
        def __init__(self, function):
            self.of = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))

        def __getitem__(self, name):
            return self.of[name].cell_contents

    here, rest = root, path.removeprefix("copy")
    while ".__closure__[" in rest:
        before, _, after = rest.partition(".__closure__[")
        name, _, rest = after.partition("]")
        here = Named(eval(f"here{before}", {"here": here}))[name.strip("'")]
    return eval(f"here{rest}", {"here": here})


# --- real cases ------------------------------------------------------------------------------------------------


def test_gpytorch_1360_a_prior_with_closures_over_self():
    class Kernel(nn.Module):
        def __init__(self):
            super().__init__()
            self.raw_lengthscale = nn.Parameter(torch.zeros(1))
            self._priors = {}
            self.register_prior("lengthscale", lambda: self.lengthscale, lambda v: self._set(v))

        def register_prior(self, name, value, set_value):
            self._priors[name] = (value, set_value)

        @property
        def lengthscale(self):
            return nn.functional.softplus(self.raw_lengthscale)

        def _set(self, value):
            self.raw_lengthscale.data.fill_(value)

    get, put = escapes_of(Kernel())
    assert get.copy_path == "copy._priors['lengthscale'][0].__closure__['self'].raw_lengthscale"
    assert put.copy_path == "copy._priors['lengthscale'][1].__closure__['self'].raw_lengthscale"
    assert get.source_path == put.source_path == "source.raw_lengthscale"


def test_fairscale_816_a_checkpoint_wrapper_with_a_weak_reference_to_the_module():
    def checkpointed(forward, module, *args):
        return forward(module(), *args)

    net = nn.Sequential(Net(), Net())
    net[0].forward = functools.partial(checkpointed, type(net[0]).forward, weakref.ref(net[0]))
    escape = only_escape_of(net)
    assert escape.copy_path == "copy[0].forward.args[1]().fc.weight"
    assert escape.source_path == "source[0].fc.weight"
    assert escape.through == "weak reference"


def test_accelerate_1971_a_forward_wrapped_around_the_module():
    net = nn.Sequential(Net(), Net())
    for module in net:

        def wrapped(old_forward, module=module):
            @functools.wraps(old_forward)
            def new_forward(*args):
                return module._old_forward(*args)

            return new_forward

        module._old_forward = module.forward
        module.forward = wrapped(module.forward)
    first, second = escapes_of(net)
    assert first.source_path == "source[0].fc.weight"
    assert first.copy_path.startswith("copy[0].forward.")
    assert second.copy_path.startswith("copy[1].forward.")


def test_accelerate_since_1971_binds_with_a_partial_which_is_copied():
    def new_forward(module, *args):
        return module._old_forward(*args)

    net = Net()
    net._old_forward = net.forward
    net.forward = functools.update_wrapper(functools.partial(new_forward, net), net.forward)
    assert escapes_of(net) == ()


def test_nnsight_723_a_controller_installed_as_forward():
    def make_controller(module, state):
        def forward(*args):
            return state["body"](module(), *args)

        return forward

    net = Net()
    net.__dict__["forward"] = make_controller(weakref.ref(net), {"body": type(net).forward})
    escape = only_escape_of(net)
    assert escape.copy_path == "copy.forward.__closure__['module']().fc.weight"
    assert escape.through == "closure"


# --- classes of instances ---------------------------------------------------------------------------------------


class Registered(nn.Module):
    instances: ClassVar = []

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.instances.append(self)


class RegisteredChild(Registered):
    pass


@pytest.fixture
def _no_instances():
    yield
    Registered.instances.clear()


@pytest.mark.usefixtures("_no_instances")
@pytest.mark.parametrize("kind", [Registered, RegisteredChild])
def test_a_registry_of_the_class(kind):
    source = {"net": kind()}
    copied, kept = deep_copied(source)
    assert kind in kept
    (escape,) = find_escapes(copied, source, [*kept, *kept], tensors_of(source))
    assert escape.copy_path == "copy['net'].instances[0].fc.weight"
    assert escape.through == "class attribute"
    assert eval(escape.copy_path, {"copy": copied}) is source["net"].fc.weight


def test_a_method_that_uses_a_global_variable():
    class Stepper:
        def step(self):
            return REGISTRY["net"]

    REGISTRY["net"] = net = Net()
    source = [net, Stepper()]
    copied, kept = deep_copied(source)
    (escape,) = find_escapes(copied, source, kept, tensors_of(source))
    assert escape.copy_path == "copy[1].step.__globals__['REGISTRY']['net'].fc.weight"
    assert escape.through == "global variable"


# --- custom copies ------------------------------------------------------------------------------------------------


class Remembers:
    """Its `__deepcopy__` copies less than it should."""

    def __init__(self, net):
        self.nets = [net]

    def __deepcopy__(self, memo):
        made = type(self)(None)
        made.nets = self.nets
        return made


def test_what_a_custom_deepcopy_returns():
    net = Net()
    source = {"net": net, "ema": Remembers(net)}
    copied, kept = deep_copied(source)
    (escape,) = find_escapes(copied, source, [*kept, copied["ema"]], tensors_of(source))
    assert escape.copy_path == "copy['ema'].nets[0].fc.weight"
    assert escape.source_path == "source['net'].fc.weight"
    assert escape.through == "custom `__deepcopy__`"


def test_a_custom_deepcopy_that_copies_well_is_no_escape():
    class Good(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def __deepcopy__(self, memo):
            made = type(self)()
            made.load_state_dict(self.state_dict())
            return made

    source = Good()
    copied, kept = deep_copied(source)
    assert find_escapes(copied, source, [*kept, copied], tensors_of(source)) == ()


def test_a_function_inside_of_a_custom_copy_is_told_once():
    class Good(Net):
        def __deepcopy__(self, memo):
            made = Good()
            made.load_state_dict(self.state_dict())
            made.act = self.act
            return made

    source = Good()
    source.act = closure(source)
    copied = copy.deepcopy(source)
    (escape,) = find_escapes(copied, source, [copied, source.act], tensors_of(source))
    assert escape.copy_path == "copy.act.__closure__['net'].fc.weight"
    assert escape.through == "closure"
    (escape,) = find_escapes(copied, source, [copied], tensors_of(source))
    assert escape.through == "closure"


def test_keys_of_a_weak_dictionary():
    """`WeakKeyDictionary.__deepcopy__` copies the values and keeps the keys."""
    net = Net()
    source = {"net": net, "notes": weakref.WeakKeyDictionary({net: 1})}
    copied, kept = deep_copied(source)
    (escape,) = find_escapes(copied, source, [*kept, copied["notes"]], tensors_of(source))
    assert escape.copy_path == "copy['notes'].data.keys()[0]().fc.weight"
    assert escape.through == "weak reference"


def test_a_cached_function():
    net = Net()
    source = [net, *cached_function(net)]
    escape = only_escape_of(source, source[1])
    assert escape.through == "cached function"
    assert escape.source_path == "source[0].fc.weight"


# --- no false alarms -------------------------------------------------------------------------------------------


def hook(module, inputs, output):
    return output


def scaled(x, scale, table=(1, 2)):
    return nn.functional.relu(x) * scale + table[0]


class WithHooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
        self.fc.register_forward_hook(self.hook)
        self.fc.register_forward_hook(hook)
        self.fc.register_forward_pre_hook(functools.partial(self.pre_hook, scale=2))
        self.handle = self.norm.register_forward_hook(hook)
        self.act = functools.partial(scaled, scale=2.0)
        self.functional = [nn.functional.gelu, torch.relu, torch.sigmoid, len, Tensor.add_]
        self.kinds = {"norm": nn.LayerNorm, "dtype": torch.float32}

    def hook(self, module, inputs, output):
        return output + self.norm.weight

    def pre_hook(self, module, inputs, scale):
        return inputs


def transformer():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 2, enable_nested_tensor=False)


def parametrized():
    return nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))


def averaged():
    return torch.optim.swa_utils.AveragedModel(Net(), avg_fn=lambda a, b, n: a)


def with_optimizer():
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    return [net, {"optimizer": optimizer, "scheduler": scheduler}]


def with_a_closure_over_something_else():
    return Net(act=closure(Net()), table=closure_over_a_tensor(Net()))


def with_a_closure_over_its_config():
    config = types.SimpleNamespace(width=2, names=["a"], nested={"b": types.SimpleNamespace()})
    config.nested["self"] = config
    return Net(act=lambda x: x * config.width)


def with_a_dead_weak_reference():
    return Net(parent=weakref.ref(Net()))


def with_an_unbound_closure():
    def function():
        return later

    net = Net(act=function)
    if net.training:
        return net
    later = 1
    return later


INNOCENT = [
    WithHooks,
    transformer,
    parametrized,
    averaged,
    with_optimizer,
    with_a_closure_over_something_else,
    with_a_closure_over_its_config,
    with_a_dead_weak_reference,
    with_an_unbound_closure,
    lambda: nn.LSTM(2, 2),
    lambda: nn.MultiheadAttention(4, 2),
    lambda: {"weights": Net().state_dict(), "metrics": [sum, max], "step": 3},
]


@pytest.mark.parametrize("make", INNOCENT, ids=lambda make: getattr(make, "__name__", "?"))
def test_no_false_alarm(make):
    source = make()
    copied, kept = deep_copied(source)
    assert kept or not isinstance(source, WithHooks)
    assert find_escapes(copied, source, kept, tensors_of(source)) == ()


def test_kept_functions_that_reach_the_copy_are_right():
    """Hooks that were bound anew on the copy."""
    source = Net()
    copied = copy.deepcopy(source)
    copied.act = closure(copied)
    assert find_escapes(copied, source, [copied.act], tensors_of(source)) == ()


def test_nothing_is_looked_up_where_nothing_was_kept():
    def refuse():
        raise AssertionError("the source's tensors were looked at")
        yield

    assert find_escapes(None, None, [], refuse()) == ()
    assert find_escapes(None, None, [torch.relu, nn.functional.gelu, hook, scaled], refuse()) == ()


def test_a_library_class_is_not_searched():
    with mock.patch.object(nn.Linear, "registry", REGISTRY, create=True):
        REGISTRY["net"] = source = Net()
        copied, kept = deep_copied(source)
        assert find_escapes(copied, source, [*kept, nn.Linear], tensors_of(source)) == ()


# --- what is shared on purpose -----------------------------------------------------------------------------------


def test_shared_objects_are_neither_entered_nor_told():
    net = net_with(closure)
    assert len(escapes_of(net)) == 1
    assert escapes_of(net, shared={id(net.act)}) == ()
    assert escapes_of(net, shared={id(net)}) == ()
    assert escapes_of(net, shared={id(net.fc)}) == ()
    (escape,) = escapes_of(net, shared={id(net.fc.weight)})
    assert escape.copy_path.endswith(".fc.bias")
    assert escape.more_tensors == 0


def test_instances_of_shared_types():
    net = net_with(closure)
    copied, kept = deep_copied(net)
    assert find_escapes(copied, net, kept, tensors_of(net), shared_types=(nn.Linear,)) == ()


def test_tensors_that_were_not_copied_are_no_escapes():
    net = net_with(closure)
    copied, kept = deep_copied(net)
    assert find_escapes(copied, net, kept, [net.fc.bias])[0].copy_path.endswith(".fc.bias")
    assert find_escapes(copied, net, kept, []) == ()


# --- tensors of all kinds ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
        lambda: torch.ones(3, device="meta"),
        lambda: torch.zeros(0),
        lambda: nn.Buffer(torch.ones(2)),
        lambda: nn.parameter.UninitializedParameter(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
    ids=["sparse", "CSR", "meta", "empty", "buffer", "uninitialized", "nested"],
)
def test_tensors_without_ordinary_memory(make):
    tensor, other = make(), make()
    source = [tensor, lambda: tensor, lambda: other]
    copied = [make(), *source[1:]]  # `copy.deepcopy` cannot copy all of them
    (escape,) = find_escapes(copied, source, source[1:], [tensor])
    assert (escape.copy_path, escape.source_path) == ("copy[1].__closure__['tensor']", "source[0]")
    assert escape.tensor.startswith(("float32[", "int64["))


def test_tensors_inside_of_a_wrapper_tensor():
    a, b = torch.ones(2), torch.zeros(2)
    wrapper = TwoTensor(a, b)
    escape = only_escape_of([wrapper, lambda: b])
    assert escape.copy_path == "copy[1].__closure__['b']"
    escape = only_escape_of([wrapper, lambda: wrapper])
    assert escape.source_path == "source[0]"


def test_a_lazy_clone_is_not_the_source():
    weight = torch.ones(1000)
    lazy = torch._lazy_clone(weight)
    assert escapes_of([weight, lambda: lazy]) == ()


def test_tensors_as_keys():
    key = torch.ones(2)
    escape = only_escape_of({"tensors": [key], "table": {key: 1}, "get": closure({key: 2})})
    assert escape.copy_path == "copy['get'].__closure__['net'].keys()[0]"
    assert escape.source_path == "source['tensors'][0]"


# --- shapes of the search -----------------------------------------------------------------------------------------


def test_one_escape_for_each_function_however_many_places():
    net = Net()
    act = closure(net)
    net.acts = [act, {"again": act}, act]
    escape = only_escape_of(net)
    assert escape.copy_path == "copy.acts[0].__closure__['net'].fc.weight"


def test_many_functions_over_one_model():
    net = nn.Sequential(*[Net() for _ in range(20)])
    for each in net:
        each.act = closure(net)
    escapes = escapes_of(net)
    assert len(escapes) == 20
    assert {e.source_path for e in escapes} == {"source[0].fc.weight"}
    assert {e.more_tensors for e in escapes} == {39}
    assert escapes[7].copy_path == "copy[7].act.__closure__['net'][0].fc.weight"


def test_tied_tensors_count_once():
    net = Net()
    net.tied, net.view = net.fc, net.fc.weight.detach()[0]
    net.act = closure(net)
    copied, kept = deep_copied(net)
    (escape,) = find_escapes(copied, net, kept, [*net.parameters(), net.view])
    assert escape.more_tensors == 1


def test_a_closure_over_much_else_is_searched_in_bounds():
    table = [{"row": [k]} for k in range(30_000)]
    net = Net(act=lambda: table)
    assert escapes_of(net) == ()


def test_what_many_closures_share_is_searched_once():
    table, net = [{"row": [k]} for k in range(15_000)], Net()
    functions = [closure(table) for _ in range(20)]
    net.acts = [*functions, closure([functions, net])]
    assert only_escape_of(net).copy_path == "copy.acts[20].__closure__['net'][1].fc.weight"


def test_what_a_custom_copy_holds_is_searched_again_for_a_function():
    net = Net()
    inner = closure(net)
    custom, source = types.SimpleNamespace(table=[inner]), [net, inner]
    outer = closure(custom.table)
    escapes = find_escapes([custom, inner, outer], source, [custom, inner, outer], tensors_of(source))
    assert [e.copy_path for e in escapes] == [
        "copy[1].__closure__['net'].fc.weight",
        "copy[2].__closure__['net'][0].__closure__['net'].fc.weight",
    ]


def test_behind_a_global_variable_only_the_programs_own_objects_are_searched():
    net, waiting = Net(act=lambda: REGISTRY), queue.Queue()
    REGISTRY.update(queue=waiting, mine=types.SimpleNamespace())
    waiting.put(net)
    assert escapes_of(net) == ()
    REGISTRY["mine"].net = net
    assert only_escape_of(net).copy_path == "copy.act.__globals__['REGISTRY']['mine'].net.fc.weight"


def test_a_closure_holds_what_it_holds_whosever_class_it_is():
    net, waiting = Net(), queue.Queue()
    waiting.put(net)
    net.act = closure(waiting)
    assert only_escape_of(net).copy_path == "copy.act.__closure__['net'].queue[0].fc.weight"


def test_more_than_can_be_counted():
    net = nn.Sequential(*[nn.Linear(1, 1) for _ in range(2_000)])
    REGISTRY["net"] = net
    net.act = lambda: REGISTRY["net"]
    escape = only_escape_of(net)
    assert escape.more_tensors is None
    assert "as are others" in str(escape)


def test_deep_nesting():
    weight = torch.ones(2)
    nested = [weight]
    for _ in range(5_000):
        nested = [nested]
    function = closure(nested)
    (escape,) = find_escapes([function], nested, [function], [weight])
    assert escape.copy_path == "copy[0].__closure__['net']" + "[0]" * 5_001
    assert escape.source_path == "source" + "[0]" * 5_001
    assert len(str(escape)) < 500


def test_cycles():
    net = Net()
    holder = {"net": net}
    holder["self"] = [holder]
    net.acts = [closure(holder)]
    net.acts.append(net.acts)
    assert only_escape_of(net).copy_path == "copy.acts[0].__closure__['net']['net'].fc.weight"


def test_a_function_that_is_nowhere_to_be_found_in_the_copy():
    net = Net()
    (escape,) = find_escapes([], [], [closure(net)], tensors_of(net))
    assert escape.copy_path == "<function closure.<locals>.<lambda> in the copy>.__closure__['net'].fc.weight"
    assert escape.source_path == "<a tensor in the source>"


class Refuses:
    def __getattr__(self, name):
        raise AssertionError(name)

    def _refuse(self, *args):
        raise AssertionError("a method was called")

    __eq__ = __bool__ = __len__ = __iter__ = __repr__ = __call__ = _refuse
    __hash__ = _refuse


def test_hostile_objects_are_not_asked():
    refuses, net = object.__new__(Refuses), Net()
    refuses.__dict__["net"] = net
    function = closure([refuses])
    source = [net, function, refuses]
    (escape,) = find_escapes(source, source, [function, refuses], tensors_of([net]))[:1]
    assert escape.copy_path == "copy[1].__closure__['net'][0].net.fc.weight"


def test_the_callers_modes_do_not_matter():
    net = net_with(closure)
    copied, kept = deep_copied(net)
    with torch.device("meta"), torch.inference_mode():
        (escape,) = find_escapes(copied, net, kept, tensors_of(net))
    assert escape.tensor == "float32[3, 2] cpu"
