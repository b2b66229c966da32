from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchcopy.semantics.relation import overlap
from torchcopy.semantics.relation.overlap import (
    ByteSet,
    byte_set,
    shared_byte_count,
    union_byte_count,
    union_shared_byte_count,
)


def brute(start, sizes, strides, element_bytes):
    """The bytes one by one: the definition that everything here is held against."""
    if 0 in sizes:
        return set()
    firsts = {
        start + element_bytes * sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, sizes))
    }
    return {first + k for first in firsts for k in range(element_bytes)}


def of(t: torch.Tensor) -> ByteSet:
    return byte_set(t.storage_offset() * t.element_size(), t.shape, t.stride(), t.element_size())


def brute_of(t: torch.Tensor) -> set[int]:
    return brute(t.storage_offset() * t.element_size(), t.shape, t.stride(), t.element_size())


@st.composite
def strided(draw, largest_stride=13):
    """Any `as_strided`: expanded, overlapping itself, empty, at any place."""
    dims = draw(st.integers(0, 3))
    sizes = draw(st.lists(st.integers(0, 5), min_size=dims, max_size=dims))
    strides = draw(st.lists(st.integers(0, largest_stride), min_size=dims, max_size=dims))
    element_bytes = draw(st.sampled_from([1, 2, 4, 8]))
    return draw(st.integers(0, 60)), sizes, strides, element_bytes


@st.composite
def nested(draw):
    """What slicing makes: each stride leaves room for all inside it, often by a common step."""
    element_bytes = draw(st.sampled_from([1, 2, 4]))
    sizes, strides, reach = [], [], 1
    for _ in range(draw(st.integers(0, 4))):
        stride = reach + draw(st.integers(0, 4))
        size = draw(st.integers(1, 7))
        sizes.insert(0, size)
        strides.insert(0, stride)
        reach = (size - 1) * stride + reach
    return draw(st.integers(0, 100)), sizes, strides, element_bytes


class TestCountsAgainstBruteForce:
    @settings(max_examples=600, deadline=None)
    @given(strided(), strided())
    def test_any_two_strided_tensors(self, a, b):
        assert shared_byte_count(byte_set(*a), byte_set(*b)) == len(brute(*a) & brute(*b))

    @settings(max_examples=600, deadline=None)
    @given(nested(), nested())
    def test_two_nested_tensors(self, a, b):
        one, other = byte_set(*a), byte_set(*b)
        assert one.nested
        assert other.nested
        assert shared_byte_count(one, other) == len(brute(*a) & brute(*b))

    @settings(max_examples=300, deadline=None)
    @given(nested(), nested())
    def test_closed_form_and_masks_agree(self, a, b):
        one, other = byte_set(*a), byte_set(*b)
        if one.levels and other.levels:
            assert overlap._count_by_masks([one], [other]) == len(brute(*a) & brute(*b))

    @settings(max_examples=300, deadline=None)
    @given(strided())
    def test_bytes_of_one(self, a):
        assert byte_set(*a).count == len(brute(*a))

    @settings(max_examples=300, deadline=None)
    @given(strided(), strided())
    def test_it_does_not_matter_which_comes_first(self, a, b):
        one, other = byte_set(*a), byte_set(*b)
        assert shared_byte_count(one, other) == shared_byte_count(other, one)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(strided(), max_size=5), st.lists(strided(), max_size=5))
    def test_unions(self, a, b):
        expected = len(set().union(*(brute(*s) for s in a)) & set().union(*(brute(*s) for s in b)))
        assert union_shared_byte_count([byte_set(*s) for s in a], [byte_set(*s) for s in b]) == expected

    @settings(max_examples=200, deadline=None)
    @given(st.lists(strided(), min_size=1, max_size=5))
    def test_bytes_of_a_union(self, sets):
        assert union_byte_count([byte_set(*s) for s in sets]) == len(set().union(*(brute(*s) for s in sets)))

    @settings(max_examples=200, deadline=None)
    @given(strided(largest_stride=40), strided(largest_stride=40), st.integers(1, 9))
    def test_masks_in_windows(self, a, b, window):
        one, other = byte_set(*a), byte_set(*b)
        if not one.levels or not other.levels:
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(overlap, "_WINDOW_BITS", window)
            assert overlap._count_by_masks([one], [other]) == len(brute(*a) & brute(*b))

    @settings(max_examples=200, deadline=None)
    @given(strided(), st.integers(1, 40))
    def test_ranges_cover_the_bytes(self, a, limit):
        s = byte_set(*a)
        ranges = s.ranges(limit)
        covered = {s.start + k for first, stop in ranges for k in range(first, stop)}
        assert len(ranges) <= limit
        assert brute(*a) <= covered
        assert all(left[1] < right[0] for left, right in itertools.pairwise(ranges))
        if s.levels:
            assert (min(covered), max(covered) + 1) == (s.start, s.stop)


BASE = torch.arange(240.0)
GRID = BASE.view(12, 20)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(BASE, BASE, 960, id="all-of-it"),
        pytest.param(BASE[::2], BASE[1::2], 0, id="interleaved-slices"),
        pytest.param(BASE[::2], BASE[::3], 40 * 4, id="every-sixth"),
        pytest.param(GRID[:, :5], GRID[:, 5:], 0, id="columns-apart"),
        pytest.param(GRID[:, :7], GRID[:, 5:], 12 * 2 * 4, id="columns-overlap"),
        pytest.param(GRID, GRID.t(), 960, id="transpose"),
        pytest.param(GRID[2:5], GRID[:, 3], 3 * 4, id="rows-and-a-column"),
        pytest.param(BASE.view(torch.uint8)[1::4], BASE, 240, id="one-byte-of-each-float"),
        pytest.param(BASE.view(torch.uint8)[1:3], BASE[:1], 2, id="part-of-an-element"),
        pytest.param(BASE[:1].expand(5), BASE, 4, id="expanded"),
        pytest.param(BASE.unfold(0, 5, 2), BASE, 239 * 4, id="unfolded"),
        pytest.param(BASE.unfold(0, 5, 2), BASE.unfold(0, 3, 7), 34 * 3 * 4, id="unfolded-twice"),
        pytest.param(BASE.as_strided((5, 7), (3, 2)), BASE, 23 * 4, id="overlapping-itself"),
        pytest.param(BASE[:0], BASE, 0, id="empty"),
        pytest.param(BASE[:100], BASE[100:], 0, id="neighbours"),
        pytest.param(BASE[7], BASE[7:9], 4, id="a-scalar"),
    ],
)
def test_views_of_one_tensor(a, b, expected):
    assert len(brute_of(a) & brute_of(b)) == expected
    assert shared_byte_count(of(a), of(b)) == expected
    assert shared_byte_count(of(b), of(a)) == expected


def test_patches_of_an_image_become_two_levels():
    image = torch.zeros(64, 64)
    patches = image.unfold(0, 3, 1).unfold(1, 3, 1)
    assert of(patches) == of(image)


def masks_are_forbidden(*_):
    raise AssertionError("the closed form gave up")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param((0, [2**28], [1], 4), (2**29, [2**28], [1], 4), 2**29, id="dense"),
        pytest.param((0, [2**27], [2], 4), (4, [2**27], [2], 4), 0, id="interleaved"),
        pytest.param(
            (0, [2**14, 2**13], [2**14, 1], 4), (2**14, [2**14, 2**13], [2**14, 1], 4), 2**28, id="columns"
        ),
        pytest.param((0, [2**14, 2**14], [2**14, 1], 4), (0, [2**14, 2**14], [1, 2**14], 4), 2**30, id="transpose"),
        # 1001 and 1003 have no common divisor: they meet every 1001·1003 elements
        pytest.param((0, [2**18], [1001], 4), (0, [2**18], [1003], 4), 262 * 4, id="strides-prime-to-each-other"),
        pytest.param(
            (0, [2**15, 9000], [9001, 1], 4), (0, [2**15, 8000], [8999, 1], 4), None, id="rows-of-two-widths"
        ),
    ],
)
def test_a_gigabyte_takes_few_steps_and_no_masks(a, b, expected, monkeypatch):
    monkeypatch.setattr(overlap, "_count_by_masks", masks_are_forbidden)
    one, other = byte_set(*a), byte_set(*b)
    count = shared_byte_count(one, other)
    if expected is not None:
        assert count == expected
    assert 0 <= count <= min(one.count, other.count)


def test_the_closed_form_gives_up_where_masks_are_quicker(monkeypatch):
    monkeypatch.setattr(overlap, "_MAX_STEPS", 3)
    a, b = BASE[::3].as_strided((6, 6), (31, 3)), BASE.as_strided((7, 5), (29, 2))
    assert shared_byte_count(of(a), of(b)) == len(brute_of(a) & brute_of(b))


def test_many_views_of_one_buffer_are_counted_once():
    views = [BASE[k : k + 3] for k in range(0, 200, 2)]  # each overlaps the next; more than are paired off
    assert len(views) > overlap._MAX_PAIRWISE
    assert union_byte_count(map(of, views)) == 201 * 4
    assert union_shared_byte_count(map(of, views), [of(BASE[10:20])]) == 40
    assert union_shared_byte_count(map(of, [BASE, *views]), map(of, [BASE, *views])) == 960


def test_no_bytes():
    empty = byte_set(8, [3, 0], [1, 1], 4)
    assert (empty.count, empty.span_bytes, empty.ranges(4)) == (0, 0, ())
    assert shared_byte_count(empty, empty) == 0
    assert union_shared_byte_count([empty], [empty]) == 0
    assert union_byte_count([]) == 0
