"""What the host has waited for: the clocks of streams and events, beside a model that follows every arrow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchcopy.auditing.tracking.stream_order import StreamOrder

STREAMS = ("s0", "s1", "s2")
EVENTS = ("e0", "e1")


class Arrows:
    """The model: all work as points, with an arrow from each to those that it has to come after."""

    def __init__(self):
        self.before = {}  # point: the points that it comes directly after
        self.last = dict.fromkeys(STREAMS)
        self.events = dict.fromkeys(EVENTS)
        self.waited = []
        self.work = []

    def _add(self, stream, *others):
        point = len(self.before)
        self.before[point] = [each for each in (self.last[stream], *others) if each is not None]
        self.last[stream] = point
        return point

    def works(self, stream):
        self.work.append(self._add(stream))

    def records(self, stream, event):
        self.events[event] = self.last[stream]

    def stream_waits(self, stream, event):
        self._add(stream, self.events[event])

    def stream_waits_for_stream(self, stream, other):
        self._add(stream, self.last[other])

    def host_waits_for_event(self, event):
        self.waited.append(self.events[event])

    def host_waits_for_stream(self, stream):
        self.waited.append(self.last[stream])

    def host_waits_for_streams(self):
        self.waited.extend(self.last.values())

    def done(self):
        """For each piece of work, whether something that the host has waited for comes after it."""
        reached, waiting = set(), [point for point in self.waited if point is not None]
        while waiting:
            point = waiting.pop()
            if point not in reached:
                reached.add(point)
                waiting += self.before[point]
        return [point in reached for point in self.work]


a_stream, an_event = st.sampled_from(STREAMS), st.sampled_from(EVENTS)
CALLS = st.one_of(
    st.tuples(st.just("works"), a_stream),
    st.tuples(st.just("records"), a_stream, an_event),
    st.tuples(st.just("stream_waits"), a_stream, an_event),
    st.tuples(st.just("stream_waits_for_stream"), a_stream, a_stream),
    st.tuples(st.just("host_waits_for_event"), an_event),
    st.tuples(st.just("host_waits_for_stream"), a_stream),
    st.tuples(st.just("host_waits_for_streams")),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(CALLS, max_size=30))
def test_the_host_knows_of_the_work_that_an_arrow_leads_from(calls):
    order, model, work = StreamOrder(), Arrows(), []
    for name, *args in calls:
        number = getattr(order, name)(*args)
        getattr(model, name)(*args)
        if name == "works":
            work.append((args[0], number))
        assert [order.is_done(stream, number) for stream, number in work] == model.done()


@pytest.mark.parametrize(
    ("calls", "is_done"),
    [
        ([], False),
        ([("host_waits_for_stream", "s0")], True),
        ([("host_waits_for_stream", "s1")], False),
        ([("host_waits_for_streams",)], True),
        ([("records", "s0", "e0")], False),
        ([("records", "s0", "e0"), ("host_waits_for_event", "e0")], True),
        ([("records", "s1", "e0"), ("host_waits_for_event", "e0")], False),
        ([("records", "s0", "e0"), ("stream_waits", "s1", "e0")], False),
        ([("records", "s0", "e0"), ("stream_waits", "s1", "e0"), ("host_waits_for_stream", "s1")], True),
        ([("stream_waits", "s1", "e0"), ("records", "s0", "e0"), ("host_waits_for_stream", "s1")], False),
        ([("records", "s0", "e0"), ("records", "s1", "e0"), ("host_waits_for_event", "e0")], False),
        ([("host_waits_for_event", "e0")], False),
        ([("stream_waits_for_stream", "s1", "s0")], False),
        ([("stream_waits_for_stream", "s1", "s0"), ("host_waits_for_stream", "s1")], True),
        ([("stream_waits_for_stream", "s0", "s1"), ("host_waits_for_stream", "s1")], False),
    ],
    ids=str,
)
def test_what_a_wait_after_a_copy_is_worth(calls, is_done):
    order = StreamOrder()
    number = order.works("s0")
    for name, *args in calls:
        getattr(order, name)(*args)
    assert order.is_done("s0", number) is is_done


def test_an_event_from_before_the_copy_says_nothing_of_it():
    order = StreamOrder()
    order.works("s0")
    order.records("s0", "e0")
    copy = order.works("s0")
    order.host_waits_for_event("e0")
    assert order.is_done("s0", 1)
    assert not order.is_done("s0", copy)
