"""An evening that the simulator sends to a broker."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from sessionization.core.session_state import Rules
from sessionization_laptop.broker import Broker
from tests.support.job import SIMULATE, command, environment

PARTITIONS = 2
RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=60_000, late_retention_ms=10_000)
GROUPS = 8
OPTIONS = (
    "--heartbeat=2s", "--session-timeout=60s", "--late-retention=10s", "--max-offsets-per-trigger=500",
    f"--device-groups={GROUPS}",
)  # fmt: skip
EVENING = ("--live=60", "--rate=30", "--dirt=0.2", "--duration=1h", "--seed=4")


@contextmanager
def simulator(broker: Broker) -> Iterator[subprocess.Popen[bytes]]:
    """Run the simulator in the background until the body ends."""
    words = command("--sink=kafka", f"--bootstrap-servers={broker.bootstrap_servers}", *EVENING, entry=(SIMULATE,))
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE) as process:
        try:
            yield process
            process.terminate()
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
        finally:
            process.kill()
