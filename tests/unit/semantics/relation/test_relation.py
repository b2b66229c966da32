from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import json
import weakref

import numpy as np
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from torchcopy import InputError, _torch_private
from torchcopy.semantics.relation import Relation, relate


def leaf():
    return torch.arange(6.0).view(2, 3).requires_grad_()


def plain():
    return torch.arange(6.0).view(2, 3)


def lazy_pair(numel=6):
    source = torch.arange(float(numel))
    return source, torch._lazy_clone(source)


# --- every way to copy: memory, graph, and what the sentence says -------------------------------------------

METHODS = {
    # name: (b from a, memory, graph, shared version counter, sentence of a leaf a)
    "a": (
        lambda a: a,
        ("same", "common", True),
        "a and b are the same tensor object; there is no copy.",
    ),
    "view": (
        lambda a: a.view_as(a),
        ("same", "a→b", True),
        "b is a view of a: writing one changes the other; gradients of b flow back to a through ViewBackward0.",
    ),
    "detach": (
        lambda a: a.detach(),
        ("same", "none", True),
        "b is a detached view of a: writing one changes the other; gradients do not flow.",
    ),
    "data": (
        lambda a: a.data,
        ("same", "none", False),
        "b is a `.data` alias of a: writing one changes the other; gradients do not flow. Their version counters "
        "are separate, so autograd does not notice writes through b.",
    ),
    "copy.copy": (
        copy.copy,
        ("same", "none", False),
        "a and b are aliases of the same bytes, as `.data` makes them: writing one changes the other; gradients do "
        "not flow. Their version counters are separate, so autograd does not notice writes through one of them.",
    ),
    "clone": (
        lambda a: a.clone(),
        ("separate", "a→b", False),
        "b is an independent copy of a: writing one leaves the other; gradients of b flow back to a through "
        "CloneBackward0.",
    ),
    "detach().clone()": (
        lambda a: a.detach().clone(),
        ("separate", "none", False),
        "b is an independent copy of a, with equal values: writing one leaves the other; gradients do not flow.",
    ),
    "deepcopy": (
        copy.deepcopy,
        ("separate", "none", False),
        "a and b are independent copies with equal values: writing one leaves the other; gradients do not flow.",
    ),
    "_lazy_clone": (
        torch._lazy_clone,
        ("lazy", "a→b", False),
        "b is a lazy clone of a: they share 24 B until the first write to either, which copies; writing one leaves "
        "the other; gradients of b flow back to a through LazyCloneBackward0.",
    ),
    "detached _lazy_clone": (
        lambda a: torch._lazy_clone(a.detach()),
        ("lazy", "none", False),
        "b is a lazy clone of a: they share 24 B until the first write to either, which copies; writing one leaves "
        "the other; gradients do not flow.",
    ),
    "row": (
        lambda a: a[1],
        ("overlap", "a→b", True),
        "b is a view of part of a (12 B of 24 B): writing those bytes changes both; gradients of b flow back to a "
        "through SelectBackward0. They differ in shape ([2, 3] and [3]).",
    ),
    "transpose": (
        lambda a: a.detach().t(),
        ("same", "none", True),
        "b is a detached view of a: writing one changes the other; gradients do not flow. They differ in shape "
        "([2, 3] and [3, 2]).",
    ),
    "computed": (
        lambda a: a * 2,
        ("separate", "a→b", False),
        "b was computed from a, into memory of its own: writing one leaves the other; gradients of b flow back to "
        "a through MulBackward0.",
    ),
    "double": (
        lambda a: a.detach().double(),
        ("separate", "none", False),
        "b is an independent copy of a, with equal values: writing one leaves the other; gradients do not flow. "
        "They differ in dtype (float32 and float64).",
    ),
    "other": (
        lambda a: torch.full((2, 3), 7.0),
        ("separate", "none", False),
        "a and b are unrelated: no byte is shared, their values differ; gradients do not flow.",
    ),
    "channels_last-like": (
        lambda a: a.detach().t().contiguous().t(),
        ("separate", "none", False),
        "b is an independent copy of a, with equal values: writing one leaves the other; gradients do not flow. "
        "They differ in strides ([3, 1] and [1, 2]).",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "facts", "sentence"), METHODS.values(), ids=METHODS)
def test_every_method(make, facts, sentence):
    a = leaf()
    relation = relate(a, make(a))
    assert (relation.memory, relation.graph, relation.shares_version_counter) == facts
    assert str(relation) == sentence


@pytest.mark.parametrize(("make", "facts", "sentence"), METHODS.values(), ids=METHODS)
def test_the_other_way_round_says_the_same(make, facts, sentence):
    a = leaf()
    b = make(a)
    there, back = relate(a, b), relate(b, a)
    turned = {"a→b": "b→a"}.get(there.graph, there.graph)
    assert (back.memory, back.shared_bytes, back.graph) == (there.memory, there.shared_bytes, turned)
    assert back.graph_path == there.graph_path
    assert back.same_values == there.same_values


@pytest.mark.parametrize(("make", "facts", "sentence"), METHODS.values(), ids=METHODS)
def test_what_it_says_about_writing_is_true(make, facts, sentence):
    """Writes through NumPy-like raw access to a, then looks at b; and the other way."""
    for write_b in (False, True):
        a = leaf()
        b = make(a)
        relation = relate(a, b)
        written, other = (b, a) if write_b else (a, b)
        before = other.detach().clone()
        with torch.no_grad():
            written.data.fill_(-5.0)
        changed = not torch.equal(before, other.detach())
        assert changed == (relation.memory in ("same", "overlap"))


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "memory", "shared_bytes"),
    [
        pytest.param(lambda x: (x[:60], x[40:]), "overlap", 80, id="partial"),
        pytest.param(lambda x: (x, x[10:20]), "overlap", 40, id="inside"),
        pytest.param(lambda x: (x[::2], x[1::2]), "separate", 0, id="interleaved"),
        pytest.param(lambda x: (x[::2], x[::3]), "overlap", 68, id="every-sixth"),
        pytest.param(lambda x: (x.view(10, 10), x.view(10, 10).t()), "same", 400, id="transpose"),
        pytest.param(lambda x: (x.view(10, 10)[:, :4], x.view(10, 10)[:, 4:]), "separate", 0, id="columns"),
        pytest.param(lambda x: (x[:1].expand(50), x[:1]), "same", 4, id="expanded"),
        pytest.param(lambda x: (x, x.view(torch.uint8)[1:3]), "overlap", 2, id="half-an-element"),
        pytest.param(lambda x: (x[:0], x), "separate", 0, id="empty"),
    ],
)
def test_views_of_one_storage(cut, memory, shared_bytes):
    relation = relate(*cut(torch.arange(100.0)))
    assert (relation.memory, relation.shared_bytes) == (memory, shared_bytes)
    assert relation.same_storage
    assert relation.shares_version_counter


def test_partial_overlap_is_said_in_numbers():
    x = torch.arange(100.0)
    assert str(relate(x[:60], x[40:80])) == (
        "a and b overlap in 80 B (a has 240 B, b has 160 B): writing those bytes changes both; neither requires "
        "gradients. They differ in shape ([60] and [40])."
    )


def test_disjoint_views_are_said():
    x = torch.arange(100.0)
    assert str(relate(x[::2], x[1::2])) == (
        "a and b are disjoint views of one storage: writing one leaves the other; either keeps all 400 B alive; "
        "neither requires gradients. They share a version counter, so autograd takes a write to one for a write to "
        "the other."
    )


def test_an_alias_of_a_part():
    a = leaf()
    assert str(relate(a, a.data[0])).startswith("b is a `.data` alias of part of a (12 B of 24 B): ")
    assert str(relate(a.detach()[0], a)).startswith("a is a detached view of part of b (12 B of 24 B): ")


def test_a_view_of_plain_tensors_is_known_by_its_base():
    x = torch.arange(6.0)
    assert str(relate(x, x.view(2, 3))).startswith("b is a view of a: writing one changes the other; neither")
    assert str(relate(x.view(2, 3), x)).startswith("a is a view of b: ")
    assert str(relate(x.view(2, 3), x.view(3, 2))).startswith("a and b view the same bytes: ")


def test_two_storages_on_one_memory():
    array = np.arange(4.0)
    relation = relate(torch.from_numpy(array), torch.from_numpy(array))
    assert (relation.memory, relation.same_storage, relation.shared_bytes) == ("same", False, 32)
    assert [s.block for s in relation.storages] == [0, 0]
    assert str(relation).startswith("a and b are two storages on the same memory: writing one changes the other")


def test_two_storages_on_parts_of_one_memory():
    array = np.arange(10.0)
    relation = relate(torch.from_numpy(array[:6]), torch.from_numpy(array[4:]))
    assert (relation.memory, relation.shared_bytes) == ("overlap", 16)
    assert [(s.block, s.first_byte) for s in relation.storages] == [(0, 0), (0, 32)]


def test_a_raw_alias_of_lazy_memory():
    """The alias writes into memory that two lazy tensors share; they do not write into the alias."""
    source = torch.ones(4)
    alias = torch.from_numpy(source.numpy())
    lazy = torch._lazy_clone(source)
    relation = relate(alias, lazy)
    assert relation.memory == "same"
    assert "writing a changes both, writing b first moves it to memory of its own" in str(relation)
    alias[0] = -1.0
    assert float(lazy[0]) == -1.0
    lazy[1] = -2.0
    assert float(alias[1]) == 1.0


class TestLazy:
    def test_part_of_a_lazy_clone(self):
        a, b = lazy_pair(10)
        relation = relate(a[:6], b[4:])
        assert (relation.memory, relation.shared_bytes, relation.same_storage) == ("lazy", 8, False)

    def test_disjoint_parts(self):
        a, b = lazy_pair(10)
        assert (relate(a[:5], b[5:]).memory, relate(a[:5], b[5:]).shared_bytes) == ("separate", 0)

    def test_both_stay_lazy_however_they_are_read(self):
        a, b = lazy_pair()
        relate(a, b)
        relate(a.double(), b)
        relate(a, torch.zeros(6))
        relate(a.view(2, 3).t(), b.view(2, 3).t())
        relate([a], [b])
        relate(a, b).to_svg()
        assert _torch_private.is_lazy(a)
        assert _torch_private.is_lazy(b)

    def test_views_of_one_lazy_storage_are_not_lazy_to_each_other(self):
        a, _keeps_it_lazy = lazy_pair()
        relation = relate(a, a[2:])
        assert (relation.memory, relation.shared_bytes) == ("overlap", 16)

    def test_after_a_write_they_are_apart(self):
        a, b = lazy_pair()
        a[0] = 9.0
        assert (relate(a, b).memory, relate(a, b).same_values) == ("separate", False)


def test_nothing_is_shared_by_empty_tensors():
    relation = relate(torch.empty(0), torch.empty(0))
    assert (relation.memory, relation.shared_bytes, relation.same_values) == ("separate", 0, True)
    assert str(relation).startswith("a and b have no bytes to share")


def test_one_empty_tensor_twice_is_the_same():
    x = torch.empty(0)
    assert relate(x, x).memory == "same"


# --- graph --------------------------------------------------------------------------------------------------


def test_the_way_is_named_in_the_order_gradients_take():
    a = leaf()
    relation = relate(a, (a * 2).exp())
    assert relation.graph_path == ("MulBackward0", "ExpBackward0")
    assert "gradients of b flow back to a through ExpBackward0 → MulBackward0." in str(relation)


def test_a_long_way_is_shortened():
    a = b = leaf()
    for _ in range(20):
        b = b.sin()
    assert "SinBackward0 → SinBackward0 → … 17 more … → SinBackward0." in str(relate(a, b))


def test_two_outputs_of_one_node():
    a, b = (leaf() * 1).unbind()
    relation = relate(a, b)
    assert (relation.graph, relation.graph_path, relation.common_at) == ("common", ("UnbindBackward0",), 0)
    assert "both were computed from the same UnbindBackward0, where their gradients meet" in str(relation)


def test_a_common_leaf():
    x = leaf()
    assert str(relate(x.sin(), x.cos())) == (
        "a and b have separate memory: writing one leaves the other; both were computed from the same leaf, where "
        "their gradients meet."
    )


def test_what_autograd_refuses_is_noted():
    base, source = torch.ones(4), torch.ones(4, requires_grad=True)
    with torch.no_grad():
        view = base[:2]
    base.mul_(source)
    relation = relate(source, view)
    assert relation.graph == "none"
    assert "Autograd refuses to go through one of them: A view was created in no_grad mode" in str(relation)


# --- values -------------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        pytest.param(torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), True, id="nan-equals-nan"),
        pytest.param(torch.tensor([1.0, NAN]), torch.tensor([NAN, 1.0]), False, id="nan-elsewhere"),
        pytest.param(torch.tensor([0.0]), torch.tensor([-0.0]), True, id="signed-zeros"),
        pytest.param(torch.tensor([NAN], dtype=torch.float16), torch.tensor([NAN]), True, id="nan-of-two-dtypes"),
        pytest.param(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), True, id="integers-and-floats"),
        pytest.param(torch.tensor([True]), torch.tensor([1]), True, id="bool-and-integer"),
        pytest.param(torch.tensor([1.5]), torch.tensor([1]), False, id="rounded"),
        pytest.param(torch.ones(2).to(torch.float8_e4m3fn), torch.ones(2), True, id="float8"),
        pytest.param(torch.tensor([2**64 - 1], dtype=torch.uint64), torch.tensor([-1]), False, id="uint64-wraps"),
        pytest.param(torch.tensor([7], dtype=torch.uint16), torch.tensor([7]), True, id="uint16"),
        pytest.param(torch.ones(2, 3), torch.ones(3, 2), False, id="another-shape"),
        pytest.param(torch.tensor(3.0), torch.tensor([3.0]), False, id="scalar-and-vector"),
        pytest.param(torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), True, id="conjugate-view"),
        pytest.param(torch.eye(3).to_sparse(), torch.eye(3), True, id="sparse-and-dense"),
        pytest.param(torch.zeros(1).expand(10**12), torch.zeros(1).expand(10**12), True, id="expanded-without-end"),
    ],
)
def test_same_values(a, b, same):
    assert relate(a, b).same_values is same
    assert relate(b, a).same_values is same


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_two_sparse_layouts():
    a, b = torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()
    assert relate(a, b).same_values is True
    assert relate(a * 2, b).same_values is False
    assert "They differ in layout (sparse_coo and sparse_csr)." in str(relate(a, b))


def test_zeros_that_are_stored_are_zeros_all_the_same():
    index = torch.tensor([[0, 1, 1]])
    stored = torch.sparse_coo_tensor(index, torch.tensor([0.0, 1.0, 2.0]), (3,), check_invariants=True)
    left_out = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([3.0]), (3,), check_invariants=True)
    assert relate(stored, left_out).same_values is True


def test_a_difference_beyond_the_first_piece_is_found():
    a = torch.zeros(2, 1_500_000)
    b = a.clone()
    assert relate(a, b).same_values is True
    b[1, -1] = 1.0
    assert relate(a, b).same_values is False
    assert relate(a.t(), b.t()).same_values is False


def test_values_are_not_read_on_request(monkeypatch):
    monkeypatch.setattr("torchcopy.semantics.relation.pair.same_values", None)
    relation = relate(plain(), plain(), values=False)
    assert relation.same_values is None
    assert "their values were not compared" in str(relation)
    assert relate([plain()], [plain()], values=False).summary.all_same_values is None


def test_bytes_read_in_the_same_way_are_not_compared(monkeypatch):
    monkeypatch.setattr("torchcopy.semantics.relation.pair.same_values", None)
    a = leaf()
    assert relate(a, a.detach()).same_values is True
    assert relate(*lazy_pair()).same_values is True


def test_the_same_bytes_read_as_another_dtype_are_compared():
    x = plain()
    assert (relate(x, x.view(torch.int32)).memory, relate(x, x.view(torch.int32)).same_values) == ("same", False)
    assert "They differ in dtype (float32 and int32) and values." in str(relate(x, x.view(torch.int32)))


# --- kinds of tensors ---------------------------------------------------------------------------------------


class TestMeta:
    def test_by_storage_and_without_values(self):
        x = torch.empty(6, device="meta")
        assert (relate(x, x[2:]).memory, relate(x, x[2:]).shared_bytes) == ("overlap", 16)
        other = relate(x, torch.empty(6, device="meta"))
        assert (other.memory, other.same_values) == ("separate", None)
        assert "There are no values to compare" in str(other)

    def test_against_a_real_tensor(self):
        relation = relate(torch.empty(3, device="meta"), torch.ones(3))
        assert (relation.memory, relation.same_values, relation.differences) == ("separate", None, ("device",))


def test_fake_tensors_by_storage():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(4)
        relation = relate(x, x[1:])  # inside the mode
    assert (relation.memory, relation.shared_bytes) == ("overlap", 12)
    assert relate(x, x.clone()).same_values is None


def test_real_tensors_inside_a_fake_mode():
    from torch._subclasses import FakeTensorMode

    a, b = plain(), plain()
    with FakeTensorMode():
        assert relate(a, b).same_values is True


def test_a_freed_storage_is_not_read():
    """Reading it would be a segmentation fault."""
    a, b = torch.ones(4), torch.ones(4)
    a.untyped_storage().resize_(0)
    relation = relate(a, b)
    assert (relation.memory, relation.same_values, relation.a.viewed_bytes) == ("separate", None, 0)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")
def test_sparse_tensors_by_their_parts(layout):
    dense = torch.eye(4)
    make = {
        "coo": dense.to_sparse,
        "csr": dense.to_sparse_csr,
        "csc": dense.to_sparse_csc,
        "bsr": lambda: dense.to_sparse_bsr((2, 2)),
        "bsc": lambda: dense.to_sparse_bsc((2, 2)),
    }[layout]
    a = make()
    shared = relate(a, a.detach())
    assert shared.memory == "same"
    assert shared.shared_bytes == shared.a.viewed_bytes > 0
    copied = relate(a, a.clone())
    assert (copied.memory, copied.shared_bytes, copied.same_values) == ("separate", 0, True)
    assert "values" in [part.name for part in a_parts(copied)]


def a_parts(relation: Relation):
    return relation.a.parts


def test_sparse_tensors_that_share_their_indices():
    a = torch.eye(3).to_sparse()
    b = torch.sparse_coo_tensor(a._indices(), a._values().clone(), (3, 3), check_invariants=True)
    relation = relate(a, b)
    assert (relation.memory, relation.shared_bytes) == ("overlap", 2 * 3 * 8)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors(layout):
    a = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    assert relate(a, a.detach()).memory == "same"
    copied = relate(a, a.clone())
    assert copied.same_values is True
    assert copied.a.shape[0] == 2
    json.dumps(copied.to_dict())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*quantize.*:UserWarning")
def test_quantized_tensors():
    a = torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8)
    assert relate(a, a.detach()).memory == "same"
    assert relate(a, a.clone()).same_values is True
    assert relate(a, torch.eye(3)).same_values is True


def test_wrapper_subclasses_by_what_they_wrap():
    inner = torch.ones(3)
    a, b = TwoTensor(inner, torch.zeros(3)), TwoTensor(inner, torch.zeros(3))
    relation = relate(a, b)
    assert (relation.memory, relation.shared_bytes, relation.same_values) == ("overlap", 12, True)
    assert [part.name for part in relation.a.parts] == ["a", "b"]
    mixed = relate(a, inner)
    assert (mixed.memory, mixed.same_values) == ("overlap", None)
    assert "hold them in different ways" in str(mixed)


class Meshed(TwoTensor):
    """Like a DTensor, it names among its parts something that is no tensor."""

    mesh = "a mesh"

    def __tensor_flatten__(self):
        return ["a", "b", "mesh"], None


def test_parts_that_are_no_tensors_are_compared_as_they_are():
    a, b = Meshed(torch.ones(2), torch.zeros(2)), Meshed(torch.ones(2), torch.zeros(2))
    assert relate(a, b).same_values is True
    b.mesh = "another mesh"
    assert relate(a, b).same_values is False


def test_inference_tensors_have_no_counter():
    with torch.inference_mode():
        a = torch.ones(4)
        relation = relate(a, a[1:])
    assert (relation.memory, relation.shares_version_counter) == ("overlap", None)
    assert "Inference tensors have no version counter" in str(relation)


def test_tensors_of_two_storages_have_two_counters():
    with torch.inference_mode():
        assert relate(torch.ones(4), torch.ones(4)).shares_version_counter is False


def test_conjugate_and_negative_views():
    z = torch.tensor([1 + 2j])
    conjugated = relate(z, z.conj())
    assert (conjugated.memory, conjugated.same_values) == ("same", False)
    assert "They differ in conjugation (of b, applied when it is read) and values." in str(conjugated)
    negated = relate(z, z.conj().imag)
    assert (negated.shared_bytes, negated.differences) == (4, ("dtype", "negation"))


# --- the inputs are left alone ------------------------------------------------------------------------------


def state(t):
    return (
        None if t.is_inference() else t._version,
        t.requires_grad,
        t.grad if t.is_leaf else None,
        t.grad_fn,
        t.is_leaf,
        _torch_private.is_lazy(t),
        _torch_private.storage_id(t),
        _torch_private.storage_address(t),
        t.tolist(),
    )


@pytest.mark.parametrize(
    "mode",
    [contextlib.nullcontext, torch.no_grad, torch.inference_mode, torch.enable_grad],
    ids=lambda m: m.__name__,
)
@pytest.mark.parametrize(("make", "facts", "sentence"), METHODS.values(), ids=METHODS)
def test_inputs_are_unchanged_in_every_mode(make, facts, sentence, mode):
    a = leaf()
    b = make(a)
    before = state(a), state(b)
    with mode():
        relation = relate(a, b)
        json.dumps(relation.to_dict())
        assert relation.to_svg()
        assert (relation.memory, relation.graph, relation.shares_version_counter) == facts
    assert (state(a), state(b)) == before


def test_backward_still_works_after_relating():
    a = leaf()
    b = (a * a).sum()
    relate(a, b)
    relate(a, a.detach())
    b.backward()
    assert torch.equal(a.grad, 2 * a.detach())


def test_the_record_keeps_no_tensor_alive():
    a, b = plain(), plain()
    relation = relate(a, b)
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    assert relation.memory == "separate"


def test_a_mode_of_the_caller_sees_nothing():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Watching.seen += 1
            return func(*args, **(kwargs or {}))

    a, b = plain(), plain()
    with Watching(), torch.device("meta"):
        assert relate(a, b).same_values is True
    assert Watching.seen == 0


def test_subclasses_with_their_own_functions_are_read_as_tensors():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError(f"{func} was called")

    with torch._C.DisableTorchFunctionSubclass():
        a = torch.arange(3.0).as_subclass(Loud)
        b = a.detach()
    assert relate(a, b).memory == "same"


# --- the record ---------------------------------------------------------------------------------------------


def test_the_record_is_frozen_plain_and_printable():
    relation = relate(leaf(), leaf())
    with pytest.raises(dataclasses.FrozenInstanceError):
        relation.memory = "same"
    assert hash(relation) == hash(relate(leaf(), leaf()))
    data = relation.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["text"] == str(relation)
    assert data["a"]["shape"] == [2, 3]
    assert "memory='separate'" in repr(relation)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        pytest.param(1, torch.ones(1), r"^a is a `int`: expected a tensor, or an `nn.Module`", id="a-number"),
        pytest.param(torch.ones(1), None, r"^b is a `NoneType`: expected a tensor", id="none"),
        pytest.param(np.ones(2), torch.ones(2), r"`numpy.ndarray`.*`torch.from_numpy\(a\)` shares", id="numpy"),
        pytest.param([], torch.nn.Linear, r"^b is a `type`: .*b is a class, pass an instance", id="a-class"),
        pytest.param("model.pt", "model.pt", r"^a is a `str`: expected", id="a-path"),
        pytest.param(torch.ones(1), [], r"^a is a tensor and b is a `list`: .*`relate\(\[a\], b\)`", id="mixed"),
        pytest.param({}, torch.ones(1), r"^b is a tensor and a is a `dict`", id="mixed-the-other-way"),
        pytest.param(iter([]), [], r"`list_iterator`.*pass `list\(a\)`", id="an-iterator"),
        pytest.param([], torch.UntypedStorage(8), r"`torch.storage.UntypedStorage`.*\.set_\(b\)`", id="a-storage"),
        pytest.param([], torch.nn.parameter.UninitializedParameter, r"class", id="a-tensor-class"),
        pytest.param(torch.ones(2).to_mkldnn(), torch.ones(2), r"^a has the layout.*`a.to_dense\(\)`", id="mkldnn"),
        pytest.param(torch.ones(2), torch._efficientzerotensor(2), r"^b is a Tensor that wraps", id="no-memory"),
    ],
)  # fmt: skip
def test_bad_input_is_named(a, b, message):
    with pytest.raises(InputError, match=message):
        relate(a, b)


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_a_wrapper_that_cannot_be_looked_into():
    from torch.masked import masked_tensor

    masked = masked_tensor(torch.ones(2), torch.tensor([True, False]))
    with pytest.raises(InputError, match=r"^b is a MaskedTensor that wraps other tensors.*pass the tensors"):
        relate(torch.ones(2), masked)


def test_uninitialised_parameters():
    with pytest.raises(InputError, match=r"^a is a UninitializedParameter without shape.*run the module once"):
        relate(torch.nn.parameter.UninitializedParameter(), torch.ones(1))


@pytest.mark.parametrize(
    "transform", [torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum())], ids=["vmap", "grad"]
)
def test_inside_a_transform(transform):
    def related(x):
        relate(x, x)
        return x

    with pytest.raises(
        InputError, match=r"^a stands for another tensor inside `torch.vmap`.*call `relate` outside"
    ) as e:
        transform(related)(torch.ones(3))
    assert "\n" not in str(e.value)


def test_symbolic_sizes():
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.ones(4, 4))
    with pytest.raises(InputError, match="symbolic sizes"):
        relate(fake, fake)


def test_values_are_read_with_their_strides_and_nan_equals_only_nan():
    x = torch.arange(9.0).view(3, 3)
    assert relate(x, x.t()).same_values is False
    assert relate(x, x.t().contiguous().t()).same_values is True
    nan, zero = torch.tensor([float("nan")]), torch.tensor([0.0])
    assert relate(nan, zero).same_values is False
    assert relate(nan, nan.clone()).same_values is True
    assert relate(x, torch._neg_view(x)).same_values is False


def test_lazy_needs_all_of_the_bytes_to_be_lazy_on_both_sides():
    a = torch.arange(4.0)
    b = torch._lazy_clone(a)
    assert relate(a, b).memory == "lazy"
    a[0] = 9
    assert relate(a, b).memory == "separate"
    assert b.tolist() == [0, 1, 2, 3]
