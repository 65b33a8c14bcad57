"""All messages of a simulated span at once, without waiting and without a sink."""

import numpy as np

from sessionization_simulator.dirt import Dirt
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.evening import Evening
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.habits import Habits
from sessionization_simulator.message_schedule import Messages, in_order
from sessionization_simulator.simulate_settings import SimulateSettings


def play_at_once(settings: SimulateSettings, begin_ms: int) -> tuple[Messages, Fleet]:
    """Play from `begin_ms` (UTC milliseconds) for the duration that the settings give.

    Returns:
        The messages that arrive within that time, in the order of their arrival, and the devices that send them. The
        same arguments give the same messages.
    """
    plan = settings.plan()
    end_ms = begin_ms + plan.duration_ms
    fleet = Fleet(plan.devices, settings.console_share, settings.seed)
    # Separate generators, so that the dirt settings do not change the evening.
    evening_rng, dirt_rng = np.random.default_rng([settings.seed, begin_ms]).spawn(2)
    evening = Evening(plan, begin_ms, evening_rng, Habits(fleet) if settings.habits else None)
    dirt = Dirt(settings.dirt, settings.dirt_kinds or tuple(DirtKind), plan.session_length_ms, end_ms, dirt_rng)
    messages = in_order(dirt.apply(evening.play(end_ms)), "deliver_ms")
    return messages[messages["deliver_ms"] < end_ms], fleet
