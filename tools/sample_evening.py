"""Make the sample evening of the notebook 01_tour: `python -m tools.sample_evening`."""

import gzip
from datetime import UTC, datetime
from pathlib import Path

from sessionization.notebook.sample_evening import FILE_NAME, SampleMessage
from sessionization_simulator import message_text
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.message_streams import by_stream
from sessionization_simulator.play_at_once import play_at_once
from sessionization_simulator.simulate_settings import SimulateSettings

_FOLDER = Path(__file__).parents[1] / "lib" / "sessionization" / "notebook"
_BEGIN_MS = int(datetime(2026, 11, 20, 20, tzinfo=UTC).timestamp() * 1_000)
_SETTINGS = {
    "output": "unused", "rate": 0.12, "duration": "2h", "session_length": "12m", "devices": 90, "dirt": 0.25, "seed": 3,
}  # fmt: skip
_DIRT_BY_CODE = {kind.code: str(kind) for kind in DirtKind}


def make() -> list[SampleMessage]:
    """Play the evening; the same version of the simulator gives the same messages."""
    messages, fleet = play_at_once(SimulateSettings.model_validate(_SETTINGS), _BEGIN_MS)
    sample = []
    for stream, of_stream in by_stream(messages, fleet):
        lines = b"".join(message_text.chunks(of_stream, fleet, stream.device_field)).split(b"\n")[:-1]
        sample += [
            SampleMessage(stream.name, int(message["deliver_ms"]), _DIRT_BY_CODE.get(int(message["dirt"])), line)
            for message, line in zip(of_stream, lines, strict=True)
        ]
    return sorted(sample, key=lambda message: message.ingested_ms)


def main() -> None:
    text = "".join(f"{message.line()}\n" for message in make())
    (_FOLDER / FILE_NAME).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
