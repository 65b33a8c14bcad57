"""Make the sample evening of the notebook 01_tour: `python -m tools.sample_evening`."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from sessionization.notebook.sample_evening import FILE_NAME, SampleMessage, sample_map
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_text import Wording
from sessionization_simulator.players import Players
from sessionization_simulator.simulate_settings import SimulateSettings

_FOLDER = Path(__file__).parents[1] / "lib" / "sessionization" / "notebook"
_BEGIN_MS = int(datetime(2026, 11, 20, 20, tzinfo=UTC).timestamp() * 1_000)
_SETTINGS = {
    "output": "unused", "rate": 0.12, "duration": "2h", "session_length": "12m", "devices": 90, "dirt": 0.25, "seed": 3,
    "ping": "3m",
}  # fmt: skip
_DIRT_BY_CODE = {kind.code: str(kind) for kind in DirtKind}


def make() -> list[SampleMessage]:
    """Play the evening; the same version of the simulator gives the same messages."""
    with TemporaryDirectory() as folder:
        events = Path(folder, "events.yml")
        events.write_text(yaml.safe_dump(sample_map().stored()), encoding="utf-8")
        settings = SimulateSettings.model_validate(_SETTINGS | {"events": str(events)})
    plan = settings.plan()
    fleet, end_ms = Fleet(plan.devices, settings.seed), _BEGIN_MS + plan.duration_ms
    messages = Players(settings, fleet, _BEGIN_MS, _BEGIN_MS, plan.duration_ms).arriving(end_ms)
    messages = messages[messages["deliver_ms"] < end_ms]
    sample, wording = [], Wording(settings.event_map, fleet)
    for stream, of_stream in wording.by_stream(messages):
        sample += [
            SampleMessage(stream, int(message["deliver_ms"]), _DIRT_BY_CODE.get(int(message["dirt"])), text)
            for message, (_, text) in zip(of_stream, wording.keyed_texts(of_stream, stream), strict=True)
        ]
    return sorted(sample, key=lambda message: message.ingested_ms)


def main() -> None:
    texts = (message._asdict() | {"value": message.value.decode("utf-8", "surrogateescape")} for message in make())
    lines = "".join(f"{json.dumps(fields)}\n" for fields in texts)
    (_FOLDER / FILE_NAME).write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()
