"""Which work on a device the host has waited for: streams, events and waits, as CUDA orders them.

Nothing here knows of CUDA. Each stream has a count of its work; a clock says for each stream up to where something
has been waited for: by another stream, by an event, or by the host. Only what the host has waited for may be read.
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping

Stream = Hashable
Clock = dict[Stream, int]


class StreamOrder:
    """What has been waited for by whom.

    Args:
        events: where the clocks of recorded events are kept, by event; one that forgets events that are gone.
    """

    def __init__(self, events: MutableMapping[Hashable, Clock] | None = None) -> None:
        self._streams: dict[Stream, Clock] = {}
        self._events: MutableMapping[Hashable, Clock] = {} if events is None else events
        self._host: Clock = {}

    def works(self, stream: Stream) -> int:
        """Something more is put on a stream: how many things that makes."""
        clock = self._streams.setdefault(stream, {})
        clock[stream] = clock.get(stream, 0) + 1
        return clock[stream]

    def records(self, stream: Stream, event: Hashable) -> None:
        """An event stands for all that a stream was given so far, and no more for what it stood for before."""
        self._events[event] = dict(self._streams.get(stream, {}))

    def stream_waits(self, stream: Stream, event: Hashable) -> None:
        """What a stream is given from now on runs after an event; one that was never recorded holds up nothing."""
        _join(self._streams.setdefault(stream, {}), self._events.get(event, {}))

    def stream_waits_for_stream(self, stream: Stream, other: Stream) -> None:
        """What a stream is given from now on runs after all that another one was given so far."""
        _join(self._streams.setdefault(stream, {}), self._streams.get(other, {}))

    def host_waits_for_event(self, event: Hashable) -> None:
        """The host has waited for an event, or has seen that it has happened."""
        _join(self._host, self._events.get(event, {}))

    def host_waits_for_stream(self, stream: Stream) -> None:
        """The host has waited until a stream had no more to do, or has seen that."""
        _join(self._host, self._streams.get(stream, {}))

    def host_waits_for_streams(self, streams: list[Stream] | None = None) -> None:
        """The host has waited for several streams; None for all."""
        for stream in self._streams if streams is None else streams:
            self.host_waits_for_stream(stream)

    def streams(self) -> list[Stream]:
        """The streams that have been given something."""
        return list(self._streams)

    def is_done(self, stream: Stream, number: int) -> bool:
        """Whether the host knows that a stream has done its first `number` things."""
        return self._host.get(stream, 0) >= number


def _join(clock: Clock, other: Clock) -> None:
    for stream, number in list(other.items()):
        if number > clock.get(stream, 0):
            clock[stream] = number
