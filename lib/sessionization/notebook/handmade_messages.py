"""Messages written by hand, as devices send them."""

import json
import time
from dataclasses import dataclass

from sessionization.core.events import Platform
from sessionization.spark.input.parse import END_EVENT, START_EVENT
from sessionization.streams import CONSOLE_STREAM, PC_STREAM


@dataclass(frozen=True, slots=True)
class Message:
    """A device's message that a session started or ended; `at_ms` is the event time in UTC milliseconds."""

    device_id: str
    session_id: int
    is_start: bool
    at_ms: int
    platform: Platform = Platform.PC

    @property
    def stream(self) -> str:
        """The folder or topic that the message belongs to."""
        return PC_STREAM if self.platform is Platform.PC else CONSOLE_STREAM

    def line(self) -> str:
        """Format the message as a line of JSON."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.at_ms // 1_000))
        fields = {
            "appSessionId": self.session_id,
            "eventId": START_EVENT if self.is_start else END_EVENT,
            "hostPcId" if self.platform is Platform.PC else "openPsid": self.device_id,
            "timestamp": f"{seconds}.{self.at_ms % 1_000:03d}Z",
        }
        return json.dumps(fields) + "\n"
