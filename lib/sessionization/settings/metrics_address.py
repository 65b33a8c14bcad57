"""Fields of the settings that say where a job serves its metrics."""

from importlib.util import find_spec
from typing import Annotated

from pydantic import Field

from sessionization.errors import ConfigurationError

MetricsPort = Annotated[
    int | None,
    Field(
        ge=1, le=65_535, description="serve metrics for Prometheus at /metrics on this port; needs the extra metrics"
    ),
]
MetricsHost = Annotated[
    str,
    Field(
        min_length=1,
        description="address that serves the metrics; 0.0.0.0 is every interface",
        json_schema_extra={"metavar": "ADDRESS"},
    ),
]


def require_metrics_package(port: int | None) -> None:
    """Raises `ConfigurationError` where a job has a port for metrics, but not the client library of Prometheus."""
    if port is not None and find_spec("prometheus_client") is None:
        msg = (
            "--metrics-port needs the package prometheus-client: install the extra metrics (docs/error-messages.md), "
            "or leave it out"
        )
        raise ConfigurationError(msg)
