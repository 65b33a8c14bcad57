"""The players: what their devices send, what goes wrong with it, and when each message arrives."""

from collections import Counter

import numpy as np

from sessionization_simulator.dirt import Dirt, DirtKind
from sessionization_simulator.evening import Evening, Messages, Schedule, concatenate
from sessionization_simulator.fleet import Fleet, Habits
from sessionization_simulator.malformed import possible_dirt
from sessionization_simulator.pings import Pings
from sessionization_simulator.simulate_settings import SimulateSettings

_NEVER_MS = 2**62


class Players:
    """The devices of an evening that starts at `start_ms`; All that is random follows from `now_ms` and the seed."""

    def __init__(self, settings: SimulateSettings, fleet: Fleet, start_ms: int, now_ms: int, span_ms: int) -> None:
        """`span_ms` is a span of `Schedule`: a few times the step between two calls of `arriving`."""
        plan = settings.plan()
        self._ends_ms = start_ms + plan.duration_ms
        kinds = settings.dirt_kinds or possible_dirt(settings.event_map, has_pings=settings.ping is not None)
        # Separate generators, so that the dirt settings do not change the evening, nor pings any Start or End.
        evening_rng, *dirt_rngs = np.random.default_rng([settings.seed, now_ms]).spawn(3)
        self._evening = Evening(plan, start_ms, evening_rng, Habits(fleet) if settings.habits else None)
        self._dirt, dirt_of_pings = (
            Dirt(settings.dirt, kinds, plan.session_length_ms, self._ends_ms, rng) for rng in dirt_rngs
        )
        self._dirts = (self._dirt, dirt_of_pings)
        self._pings = None if settings.ping is None else Pings(settings.ping, dirt_of_pings, dirt_rngs[1], span_ms)
        self._undelivered = Schedule("deliver_ms", span_ms)

    @property
    def live(self) -> int:
        """The number of live sessions, also of those that have crashed."""
        return self._evening.live

    @property
    def dirt(self) -> Counter[DirtKind]:
        """How many events have got each kind so far, those whose message is lost included."""
        return sum((dirt.counts for dirt in self._dirts), Counter[DirtKind]())

    def arriving(self, until_ms: int) -> Messages:
        """Take the messages that arrive before an instant; at the end also later ones of events that have happened."""
        self._undelivered.add(self._sent(until_ms))
        arriving = self._undelivered.take(until_ms)
        if until_ms >= self._ends_ms:
            late = self._undelivered.take(_NEVER_MS)
            arriving = concatenate(arriving, late[late["at_ms"] < self._ends_ms])
        return arriving if self._pings is None else self._pings.without_crashed(arriving)

    def _sent(self, until_ms: int) -> Messages:
        played = self._evening.play(until_ms)
        sent = self._dirt.apply(played)
        if self._pings is None:
            return sent
        is_second = (sent["dirt"] == DirtKind.OVERLAP.code) & ~sent["is_end"]
        return concatenate(sent, self._pings.play(concatenate(played[~played["is_end"]], sent[is_second]), until_ms))
