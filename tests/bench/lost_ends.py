"""Measure how far off the ends of lost Ends are, with signs of life and without: `python -m tests.bench.lost_ends`.

The simulator's players lose a part of their Ends. Their messages go through the core, as in a backfill: on a clock with
a micro-batch each second, in simulated time. So hours of timeouts take seconds.
"""

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles

import yaml

from sessionization.core.events import Change, Event
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.durations import HOUR_MS, MINUTE_MS, format_duration
from sessionization.spark.replay.device_replay import replay
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.evening import Messages, in_order
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_text import Wording
from sessionization_simulator.players import Players
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.bench.report import say
from tests.support.event_maps import WITH_PINGS
from tests.support.wire import read

_BEGIN_MS = 1_767_290_400_000
"""2026-01-01T18:00:00Z"""
_SILENCE_MS = 10 * MINUTE_MS
_SETTINGS = {
    "--session-timeout 12h": Rules(),
    "--inactivity-timeout 10m": Rules(inactivity_timeout_ms=_SILENCE_MS, late_retention_ms=_SILENCE_MS),
}
_Micro = list[tuple[int, list[Event]]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lost_ends", description=__doc__)
    parser.add_argument("--lost", type=float, default=0.2, help="the share of Ends that are lost")
    parser.add_argument("--ping", default="1m", help="how often a device sends a sign of life")
    parser.add_argument("--devices", type=int, default=1_500, help="a third of them plays")
    parser.add_argument("--duration", default="8h", help="how long they play")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lost-ends-") as folder:
        events = Path(folder, "pings.yml")
        events.write_text(WITH_PINGS, encoding="utf-8")
        settings = SimulateSettings.model_validate(
            {
                "output": folder, "events": str(events), "ping": options.ping, "devices": options.devices,
                "duration": options.duration, "dirt": options.lost, "dirt_kinds": (DirtKind.LOST_END,),
            }
        )  # fmt: skip
    fleet = Fleet(options.devices, settings.seed)
    end_ms = _BEGIN_MS + settings.duration
    messages = in_order(
        Players(settings, fleet, _BEGIN_MS, _BEGIN_MS, settings.duration).arriving(end_ms), "deliver_ms"
    )
    true_ends = lost_ends(messages, end_ms)
    devices = events_by_device(messages, Wording(settings.event_map, fleet))
    starts = sum(not message["is_end"] and not message["is_ping"] for message in messages)
    length = format_duration(int(settings.plan().session_length_ms))
    say(f"{len(messages):,} messages, {starts:,} sessions of {length} on average, {len(true_ends):,} lost Ends")
    for name, rules in _SETTINGS.items():
        clock = MicroBatchClock(end_ms + rules.session_timeout_ms + HOUR_MS)
        ends = last_ends(devices, rules, clock)
        errors_s = {at: abs((ends[at].ended_ms or 0) - true_ms) / 1_000 for at, true_ms in true_ends.items()}
        say(f"{name}: {_summary(errors_s.values())}")
        for reason, count in Counter(str(ends[at].end_reason) for at in true_ends).most_common():
            of_reason = [error_s for at, error_s in errors_s.items() if ends[at].end_reason == reason]
            say(f"  {reason} {count:,}: {_summary(of_reason)}")
    return 0


def lost_ends(messages: Messages, end_ms: int) -> dict[int, int]:
    """When the sessions were over whose End is not among the messages, by session id."""
    ended = set(messages["session_id"][messages["is_end"]].tolist())
    starts = messages[~messages["is_end"] & ~messages["is_ping"] & (messages["ends_ms"] < end_ms)]
    ends = zip(starts["session_id"].tolist(), starts["ends_ms"].tolist(), strict=True)
    return {session_id: ends_ms for session_id, ends_ms in ends if session_id not in ended}


def events_by_device(messages: Messages, wording: Wording) -> dict[str, _Micro]:
    """The events of each device, in the micro-batches that take them."""
    events: defaultdict[str, list[Event]] = defaultdict(list)
    content = yaml.safe_load(WITH_PINGS)
    for stream, of_stream in wording.by_stream(messages):
        texts = wording.keyed_texts(of_stream, stream)
        for (_, text), ingested_ms in zip(texts, of_stream["deliver_ms"].tolist(), strict=True):
            found = read(stream, text, ingested_ms, content, has_activity=True)
            assert isinstance(found, tuple)
            events[found[0]].append(found[1])
    clock = MicroBatchClock(0)
    return {
        device: [
            (now_ms, list(batch)) for now_ms, batch in groupby(of, lambda event: clock.at_or_after(event.ingested_ms))
        ]
        for device, of in events.items()
    }


def last_ends(devices: dict[str, _Micro], rules: Rules, clock: MicroBatchClock) -> dict[int, Change]:
    """The end that each session has at last."""
    return {
        int(change.session_id): change
        for device, batches in devices.items()
        for change in _ends(replay(batches, grid_for_key(device, rules.heartbeat_ms), rules, clock))
    }


def _ends(changes: Iterable[Change]) -> Iterator[Change]:
    return (change for change in changes if change.end_reason is not None)


def _summary(errors_s: Iterable[float]) -> str:
    errors_s = list(errors_s)
    p90_s = quantiles(errors_s, n=10)[-1]
    return f"median {median(errors_s):,.0f} s, p90 {p90_s:,.0f} s, most {max(errors_s):,.0f} s off"


if __name__ == "__main__":
    sys.exit(main())
