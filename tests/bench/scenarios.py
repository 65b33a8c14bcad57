"""What `make bench` and `make bench-quick` run."""

from sessionization.spark.layout import groups_for
from tests.bench.scenario import ONE_DEVICE, YARDSTICK, Scenario, Sink


def flat_out(live: int, warm_up_s: int, seconds: int, per_batch: dict[str, int]) -> list[Scenario]:
    """How many Starts and heartbeats go through, by layout and the size of its micro-batches."""
    return [
        Scenario(load, layout, live, per_batch=rows, warm_up_s=warm_up_s, seconds=seconds)
        for load in ("starts", "beats")
        for layout, rows in per_batch.items()
    ]


def held(live: int, layouts: tuple[str, ...], sink: Sink = "noop", seconds: int = 600) -> list[Scenario]:
    """The published mix: what it costs, and whether heartbeats come in time."""
    return [Scenario("mix", layout, live, sink, warm_up_s=240, seconds=seconds, heap="6g") for layout in layouts]


QUICK = flat_out(20_000, 15, 10, {YARDSTICK: 20_000, str(groups_for(20_000)): 20_000})
WHOLE = [
    *flat_out(100_000, 60, 60, {YARDSTICK: 50_000, str(groups_for(100_000)): 50_000, ONE_DEVICE: 5_000}),
    *held(100_000, (YARDSTICK, str(groups_for(100_000)), ONE_DEVICE), seconds=180),
    *held(100_000, (str(groups_for(100_000)),), "delta", seconds=180),
    *held(500_000, (YARDSTICK, str(groups_for(500_000))), seconds=180),
    *held(500_000, (str(groups_for(500_000)),), "delta"),
    *held(1_000_000, (YARDSTICK,), seconds=180),
    *held(1_000_000, (str(groups_for(1_000_000)),)),
]
