import copy
import warnings

import pytest
import torch

import torchcopy as tc
from torchcopy.semantics.catalogue import find_methods, import_callable, other_dtype

REQUIRED = """assignment copy.copy detach data clone detach_clone clone_detach empty_like_copy_ tensor new_tensor
tensor_requires_grad new_tensor_requires_grad deepcopy to to_copy contiguous reshape asarray asarray_copy
numpy_roundtrip lazy_clone foreach_copy_ state_dict_load tc.copy tc.fork""".split()


def test_catalogue_is_complete_and_consistent():
    methods = {method.id: method for method in find_methods()}
    assert set(REQUIRED) <= set(methods)
    for method in methods.values():
        assert method.code
        assert method.purpose.endswith(".")
        assert method.why.endswith(".")
        assert method.prefer is None or (method.prefer in methods and methods[method.prefer].prefer is None)
    assert len({method.code for method in methods.values()}) == len(methods)


@pytest.mark.parametrize("method", find_methods(), ids=lambda m: m.id)
def test_the_code_that_is_shown_does_what_the_function_does(method):
    """`code` is run as a user would write it; what comes out must be what `run` makes of the same source."""
    t = torch.arange(6.0, requires_grad=True) * 1
    if method.id == "deepcopy":
        t = torch.arange(6.0, requires_grad=True)
    names = {"t": t, "torch": torch, "tc": tc, "copy": copy, "other_dtype": other_dtype(t.dtype)}
    if method.id == "foreach_copy_":
        names["out"] = torch.empty(6)
        with torch.no_grad():
            eval(method.code, names)
        shown = names["out"]
    elif method.id == "state_dict_load":
        names["model"], names["new"] = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
        eval(method.code, names)
        assert torch.equal(names["new"].weight, names["model"].weight)
        assert names["new"].weight is not names["model"].weight
        return
    else:
        with _ignoring_warnings():
            shown = eval(method.code, names)
    with _ignoring_warnings():
        made = method.run(t)
    assert torch.equal(shown, made)
    assert (shown.requires_grad, shown.dtype) == (made.requires_grad, made.dtype)
    assert type(shown.grad_fn) is type(made.grad_fn)
    assert (shown is t) is (made is t)


def _ignoring_warnings():
    return warnings.catch_warnings(action="ignore")


def test_registering_a_method_makes_it_one_of_the_catalogue():
    made = tc.register_method("times_one", lambda t: t * 1, code="t * 1", purpose="For a test.")
    try:
        assert find_methods()[-1] is made
        facts = tc.probe("times_one").main
        assert (facts.graph, facts.shares_memory) == (True, False)
    finally:
        tc.unregister_method("times_one")
    with pytest.raises(tc.InputError, match="there is no copy method 'times_one'"):
        tc.find_method("times_one")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("clone", lambda t: t), "a copy method named 'clone' exists already"),
        (("", lambda t: t), "needs a name"),
        ((" x", lambda t: t), "without spaces, commas"),
        ((3, lambda t: t), "needs a name"),
        (("a,b", lambda t: t), "without spaces, commas"),
        (("a|b", lambda t: t), "without spaces, commas"),
        (("a\nb", lambda t: t), "without spaces, commas"),
        (("x", 3), "`run` must take a tensor and return one; got 3"),
    ],
)
def test_registering_refuses(arguments, message):
    with pytest.raises(tc.InputError, match=message):
        tc.register_method(*arguments)


def test_registering_refuses_to_prefer_what_does_not_exist():
    with pytest.raises(tc.InputError, match="there is no copy method 'nothing'"):
        tc.register_method("x", lambda t: t, prefer="nothing")


def test_own_methods_of_the_catalogue_stay():
    with pytest.raises(tc.InputError, match="cannot be removed"):
        tc.unregister_method("clone")


def test_a_misspelt_method_gets_a_suggestion():
    with pytest.raises(tc.InputError, match=r"no copy method 'detach_clon': did you mean 'detach_clone'\?"):
        tc.find_method("detach_clon")


def test_a_function_of_the_user_is_a_method():
    facts = tc.probe("torch:clone").main
    assert (facts.graph, facts.shares_memory) == (True, False)
    assert tc.probe("torch:clone").method.code == "clone(t)"


def test_methods_come_in_the_order_asked_for_each_once():
    assert [m.id for m in find_methods(["detach", "clone", "detach"])] == ["detach", "clone"]
    assert [m.id for m in find_methods("detach")] == ["detach"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("torch", "must read PACKAGE.MODULE:NAME"),
        (":f", "must read PACKAGE.MODULE:NAME"),
        ("no_such_module_at_all:f", "importing 'no_such_module_at_all' failed: ModuleNotFoundError"),
        ("torch:no_such_function", "'torch' has no attribute 'no_such_function'"),
        ("torch:float32", "is dtype, not something to call"),
    ],
)
def test_import_callable_refuses(spec, message):
    with pytest.raises(tc.InputError, match=message):
        import_callable(spec, "method")


def test_records_are_plain_data():
    data = tc.find_method("clone").to_dict()
    assert data["id"] == "clone"
    assert "run" not in data
