"""The port on which a test's job serves its metrics."""

import socket
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def serves(port: int, names: set[str]) -> bool:
    """Scrape a port of this machine, and return whether there are series with all of these names."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except urllib.error.URLError:  # the engine is still starting
        return False
    families = text_string_to_metric_families(text)
    return names <= {sample.name for family in families for sample in family.samples}
