"""Copies made inside `torch.func`'s transforms, and in forward-mode differentiation."""

import pytest
import torch
from torch import func
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import torchcopy as tc

# PyTorch's own, when it first differentiates forwards.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

MEMORIES = ("own", "lazy", "share")


def cubed(memory, graph="keep"):
    def total(x):
        copied = tc.copy({"x": x, "fixed": torch.ones(2)}, graph=graph, memory=memory)
        return (copied["x"] ** 3 * copied["fixed"]).sum()

    return total


TRANSFORMED = {
    "hessian": (lambda f: func.hessian(f), [[6.0, 0.0], [0.0, 12.0]]),
    "jacrev": (lambda f: func.jacrev(f), [3.0, 12.0]),
    "jacfwd": (lambda f: func.jacfwd(f), [3.0, 12.0]),
    "grad": (lambda f: func.grad(f), [3.0, 12.0]),
    "jvp": (lambda f: lambda x: func.jvp(f, (x,), (torch.ones(2),))[1], 15.0),
    "vjp": (lambda f: lambda x: func.vjp(f, x)[1](torch.tensor(1.0))[0], [3.0, 12.0]),
    "vmap": (lambda f: lambda x: func.vmap(f)(x.repeat(2, 1)), [9.0, 9.0]),
    "grad of each": (lambda f: lambda x: func.vmap(func.grad(f))(x.repeat(2, 1)), [[3.0, 12.0]] * 2),
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_transform_follows_a_copy_that_keeps_the_graph(name, memory):
    transform, expected = TRANSFORMED[name]
    assert transform(cubed(memory))(torch.tensor([1.0, 2.0])).tolist() == expected


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", ["hessian", "jacrev", "jacfwd", "grad", "jvp", "vjp", "grad of each"])
def test_a_detached_copy_is_a_constant(name, memory):
    derivative = TRANSFORMED[name][0](cubed(memory, graph="detach"))(torch.tensor([1.0, 2.0]))
    assert not derivative.any()


@pytest.mark.parametrize("memory", ["own", "lazy"])
@pytest.mark.parametrize("graph", ["keep", "detach"])
def test_neither_side_sees_a_write_inside_a_transform(graph, memory):
    def write_both(x):
        x = x * 1
        copied = tc.copy([x], graph=graph, memory=memory)[0]
        x.mul_(3)
        seen = copied * 1
        copied.mul_(5)
        return torch.stack([x, seen, copied])

    assert func.vmap(write_both)(torch.tensor([1.0, 2.0])).tolist() == [[3, 1, 5], [6, 2, 10]]


@pytest.mark.parametrize("memory", ["own", "lazy"])
def test_what_comes_from_outside_of_vmap(memory):
    weight = torch.tensor([1.0, 2.0], requires_grad=True)

    def scaled(x):
        copied = tc.copy([weight, weight[1:]], graph="keep", memory=memory)
        return (copied[0] * x).sum() + copied[1].sum()

    outputs = func.vmap(scaled)(torch.ones(3, 2))
    assert outputs.tolist() == [5, 5, 5]
    (gradient,) = torch.autograd.grad(outputs.sum(), weight)
    assert gradient.tolist() == [3, 6]


@pytest.mark.parametrize(
    "options", [{}, {"memory": "lazy"}, {"memory": "share"}, {"dtype": torch.float64}], ids=str
)
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_detached_copy_leaves_the_tangent_behind(size, options):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(size), torch.full((size,), 2.0))
        copies = tc.copy([dual, (dual * 3,), dual[1:]], **options)
        for copied in (copies[0], *copies[1], copies[2]):
            assert forward_ad.unpack_dual(copied).tangent is None
        assert float(forward_ad.unpack_dual(dual).tangent[0]) == 2
        if options.get("memory") != "share":
            primal = forward_ad.unpack_dual(dual).primal
            primal.zero_()
            assert bool((copies[0] == 1).all())
            copies[0].fill_(7)
            assert not primal.any()


@pytest.mark.parametrize(
    "options", [{}, {"memory": "lazy"}, {"memory": "share"}, {"dtype": torch.float64}], ids=str
)
def test_a_copy_that_keeps_the_graph_has_the_tangent(options):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3), torch.full((3,), 2.0))
        copied = tc.copy({"x": dual}, graph="keep", **options)["x"]
        tripled = forward_ad.unpack_dual(copied * 3)
        assert tripled.tangent.tolist() == [6, 6, 6]
        assert tripled.primal.tolist() == [3, 3, 3]


def tracer(name):
    if name == "torch.jit.trace":
        return lambda f, x: torch.jit.trace(f, (x,), check_trace=False)
    return lambda f, x: make_fx(f, tracing_mode=name.removeprefix("make_fx "))(x)


@pytest.mark.parametrize(
    "options",
    [{}, {"memory": "lazy"}, {"graph": "keep"}, {"graph": "keep", "memory": "lazy"}, {"dtype": torch.float64}],
    ids=str,
)
@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("name", ["torch.jit.trace", "make_fx real", "make_fx fake", "make_fx symbolic"])
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_copy_is_a_part_of_a_traced_graph(name, size, options):
    def write_both(x):
        doubled = x * 2
        copied = tc.copy([doubled, (doubled,)], **options)[0]
        doubled.add_(100)
        seen = copied + 1
        copied.mul_(0)
        return seen, doubled * 1

    traced = tracer(name)(write_both, torch.ones(size))
    seen, doubled = traced(torch.full((size,), 5.0))
    assert seen.unique().tolist() == [11]
    assert doubled.unique().tolist() == [110]
