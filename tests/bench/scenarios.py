"""The scenarios of `make bench` and `make bench-quick`."""

from tests.bench.scenario import ONE_DEVICE, YARDSTICK, Load, Scenario, Sink


def full_speed(load: Load, live: int, per_batch: dict[str, int], warm_up_s: int, seconds: int) -> list[Scenario]:
    """Loads at full speed, by layout with its number of Starts in a micro-batch: the rate of Starts or heartbeats."""
    return [
        Scenario(load, layout, live, per_batch=rows, warm_up_s=warm_up_s, seconds=seconds)
        for layout, rows in per_batch.items()
    ]


def steady(live: int, *layouts: str, sink: Sink = "noop", warm_up_s: int = 180, seconds: int = 180) -> list[Scenario]:
    """The published mix of events as a steady load: its cost, and whether heartbeats come in time."""
    return [Scenario("mix", layout, live, sink, warm_up_s=warm_up_s, seconds=seconds, heap="6g") for layout in layouts]


def _groups(live: int) -> str:
    """The number of device groups that docs/performance.md advises."""
    return str(max(32, -(-live // 4_000)))


QUICK = [
    *full_speed("starts", 200_000, {YARDSTICK: 20_000, _groups(200_000): 20_000}, 15, 10),
    *full_speed("beats", 50_000, {YARDSTICK: 50_000, _groups(50_000): 50_000}, 15, 10),
]
WHOLE = [
    *full_speed("starts", 1_000_000, {YARDSTICK: 50_000, _groups(1_000_000): 50_000, ONE_DEVICE: 10_000}, 45, 30),
    *full_speed("beats", 100_000, {YARDSTICK: 50_000, _groups(100_000): 50_000, ONE_DEVICE: 50_000}, 45, 30),
    *steady(100_000, YARDSTICK, _groups(100_000), ONE_DEVICE),
    *steady(100_000, _groups(100_000), sink="delta"),
    *steady(500_000, YARDSTICK, _groups(500_000)),
    *steady(500_000, _groups(500_000), sink="delta", seconds=600),
    *steady(1_000_000, YARDSTICK),
    *steady(1_000_000, _groups(1_000_000), seconds=600),
]
SCALING = [
    *(
        scenario
        for live in (25_000, 100_000, 400_000, 1_500_000)
        for scenario in steady(live, _groups(live), warm_up_s=100, seconds=45)
    ),
    *steady(100_000, "400", "1600", warm_up_s=100, seconds=45),
    *steady(100_000, YARDSTICK, ONE_DEVICE, warm_up_s=100, seconds=45),
]
