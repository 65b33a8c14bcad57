"""The port on which a test's job serves its metrics, and what the last scrape found."""

import socket
import urllib.error
import urllib.request
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class MetricsEndpoint:
    """A port of this machine, and the labels of each series at the last scrape."""

    port: int = field(default_factory=free_port)
    series: dict[str, set[str]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serves(self, names: set[str]) -> bool:
        """Scrape, and return whether all series with these names have been served."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except urllib.error.URLError:  # the engine is still starting
            return False
        families = text_string_to_metric_families(text)
        self.series = {sample.name: set(sample.labels) for family in families for sample in family.samples}
        return names <= self.series.keys()
