"""`copy_` and `lerp_` where targets lie on the same bytes: each element takes one value, or the call is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from in_place_checks import assert_apart, assert_refused

import torchcopy as tc


def numbers(*shape):
    return (torch.arange(torch.Size(shape).numel()) + 1.0).view(shape)


def test_targets_that_overlap_take_sources_that_agree():
    base, flat = torch.zeros(6), numbers(6)
    tc.copy_([base[:4], base[2:]], [flat[:4], flat[2:]])
    assert torch.equal(base, flat)
    assert_apart(base, flat)
    src = [torch.full((4,), 1.0), torch.full((4,), 2.0)]
    for call, options in ((tc.copy_, ()), (tc.lerp_, (0.5,))):
        message = assert_refused(call, [base[:4], base[2:]], src, *options, match="give both the same values there")
        assert "dst[1]: expected the values of src[0] where it overlaps dst[0], found others in src[1]" in message
    tc.copy_([base[:3], base[2:]], [torch.tensor([1, 1, torch.nan]), torch.tensor([torch.nan, 1, 1, 1])])
    assert base[2].isnan()


def test_every_conflict_of_targets_that_overlap_is_listed():
    base = torch.zeros(20)
    dst = [base[k : k + 4] for k in range(0, 18, 2)] + [torch.zeros(3)]
    src = [torch.full((4,), float(k)) for k in range(9)] + [torch.ones(2)]
    src[4] = src[3].clone()
    message = assert_refused(tc.copy_, dst[:8] + dst[9:], src[:8] + src[9:], match="differ in 7 places")
    for later in (1, 2, 3, 5, 6, 7):
        assert (
            f"dst[{later}]: expected the values of src[{later - 1}] where it overlaps dst[{later - 1}]" in message
        )
    assert "dst[8]: expected float32[3] cpu, found float32[2] cpu" in message


def test_one_that_is_written_over_by_its_neighbour_alone_is_found():
    """The last holds the values of the first: what is between them has others."""
    base = torch.zeros(4)
    src = [torch.ones(4), torch.full((4,), 2.0), torch.ones(4)]
    dst = [base, base.view(2, 2).view(4), base.view(torch.int32).view(torch.float32)]
    assert_refused(tc.copy_, dst, src, match=r"dst\[1\]: expected the values of src\[0\], as it is one tensor")
    dst, src = [base[:3], base[1:], base[:3].view(3, 1)], [src[0][:3], src[1][:3], src[0][:3].view(3, 1)]
    message = assert_refused(tc.copy_, dst, src, match="give both the same values there")
    assert "dst[2]: expected the values of src[1] where it overlaps dst[1], found others in src[2]" in message


def test_views_of_other_dtypes_conjugates_and_odd_addresses_overlap_too():
    base = torch.zeros(4)
    whole, words = numbers(4), numbers(4).view(torch.int32)
    tc.copy_([base, base.view(torch.int32)[1:]], [whole, words[1:]])
    assert torch.equal(base, whole)
    assert_refused(tc.copy_, [base, base.view(torch.int16)[3:5]], [whole, whole[:2] * 0], match="same values there")
    room = bytearray(41)
    shifted = torch.frombuffer(room, dtype=torch.float64, offset=1)
    tc.copy_([shifted[:3], shifted[2:].view(torch.int16)], [numbers(3), numbers(5)[2:].double().view(torch.int16)])
    assert shifted.tolist() == [1, 2, 3, 4, 5]
    short = [numbers(3), torch.zeros(12)]
    assert_refused(tc.copy_, [shifted[:3], shifted[2:].view(torch.int16)], short, match="same values there")
    c = torch.zeros(4, dtype=torch.cfloat)
    z = numbers(4) + 1j
    tc.copy_([c[:3], c.conj()[1:], c.conj().imag[2:]], [z[:3], z.conj()[1:], -z.imag[2:]])
    assert torch.equal(c, z)
    assert_refused(tc.copy_, [c[:3], c.conj()[1:]], [z[:3], z[1:]], match="same values there")
    assert_apart(c, z)


def test_views_that_interleave():
    base, src = torch.zeros(6), [torch.full((3,), 1.0), torch.full((3,), 2.0)]
    tc.copy_([base[::2], base[1::2]], src)
    assert base.tolist() == [1, 2, 1, 2, 1, 2]
    assert_apart(base, src)


VIEWS = st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(1, 2))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(VIEWS, VIEWS), min_size=1, max_size=5), st.sampled_from([None, 0.25]))
def test_any_views_of_a_tensor_its_fork_and_another(pairs, weight):
    """As if all new values were computed before they are written; refused where two are for one element."""

    def view(bases, spec):
        base, start, stride = spec
        return bases[base][start : start + 3 * stride : stride]

    bases = [numbers(12), numbers(12), numbers(12) * 100]
    expected = [base.clone() for base in bases]
    bases[1] = tc.fork(bases[0])
    new = [view(expected, s).clone() for _, s in pairs]
    copied = [base.clone() for base in bases]
    for (d, _), n in zip(pairs, new, strict=True):
        view(copied, d).copy_(n)
    contradictory = any(not torch.equal(view(copied, d), n) for (d, _), n in zip(pairs, new, strict=True))
    if weight is not None:
        new = [torch.lerp(view(expected, d), n, weight) for (d, _), n in zip(pairs, new, strict=True)]
    targets = [d for d, _ in pairs]
    first = [targets.index(d) for d in targets]  # a tensor in two places is written once
    for k in sorted(set(first)):
        view(expected, targets[k]).copy_(new[k])
    arguments = [view(bases, d) for d, _ in pairs], [view(bases, s) for _, s in pairs]
    if contradictory:
        before = [base.clone() for base in bases]
        with pytest.raises(tc.InputError, match=r"tie them in src too|give both the same values there"):
            tc.copy_(*arguments) if weight is None else tc.lerp_(*arguments, weight)
        assert all(map(torch.equal, bases, before))
        return
    tc.copy_(*arguments) if weight is None else tc.lerp_(*arguments, weight)
    assert all(map(torch.equal, bases, expected))
