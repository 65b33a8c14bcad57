"""A scenario (load, layout and sink), those of `make bench` and `make bench-quick`, and the result of one run."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

YARDSTICK = "jvm"
ONE_DEVICE = "device"

LONG_LIVED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""As on a cluster: Spark generates and compiles code, which pays off in runs of more than a few minutes."""
LONG_LIVED_JAVA_OPTIONS = "-Dfile.encoding=UTF-8"
"""`JAVA_TOOL_OPTIONS` without the options for short test runs: Java's defaults, with both compilers."""

Load = Literal["starts", "beats", "pings", "mix"]
Sink = Literal["noop", "delta"]
Ids = Literal["integer", "text"]
Weighted = list[tuple[int, int]]
"""Delays in milliseconds, each with its number of rows."""


@dataclass(frozen=True)
class Scenario:
    """One run in a process of its own.

    `layout` is a number of device groups, `device` for one device per key, or `jvm` for the yardstick. Loads:

    - `starts`: Starts of new devices at full speed, `per_batch` in a micro-batch, with hardly a heartbeat. At the end
      `live` sessions or more are live.
    - `beats`: `live` sessions with a heartbeat interval so short that every session beats in every micro-batch.
    - `pings`: `live` sessions, and Activities of theirs at full speed, `per_batch` in a micro-batch.
    - `mix`: `live` sessions that beat every 30 s, and one event per 16 heartbeats: an End and a Start in turn. With
      `ping_s` each session has an Activity in so many seconds, and the job an inactivity timeout.

    `heap` is the memory of the JVM as Spark writes it. Session ids of type text are UUIDs. `labels` are the
    label columns: title and kept values.
    """

    load: Load
    layout: str
    live: int
    sink: Sink = "noop"
    per_batch: int = 20_000
    warm_up_s: int = 60
    seconds: int = 60
    heap: str = "2g"
    ids: Ids = "integer"
    labels: tuple[str, ...] = ()
    ping_s: int = 0

    @property
    def name(self) -> str:
        layout = {YARDSTICK: "JVM", ONE_DEVICE: "a device per key"}.get(self.layout, f"{self.layout} groups")
        size = f"{self.per_batch:,} a micro-batch" if self.load in {"starts", "pings"} else f"{self.live:,} live"
        ids = ", UUIDs" if self.has_text_ids else ""
        labels = f", {len(self.labels)} labels" if self.labels else ""
        pings = f", a ping in {self.ping_s} s" if self.ping_s else ""
        return f"{self.load}, {size}, {layout}, {self.sink}{ids}{labels}{pings}"

    @property
    def has_text_ids(self) -> bool:
        return self.ids == "text"

    @property
    def has_activity(self) -> bool:
        return self.load == "pings" or self.ping_s > 0

    @property
    def device_groups(self) -> int | None:
        return None if self.layout == ONE_DEVICE else int(self.layout)


def full_speed(load: Load, live: int, per_batch: dict[str, int], warm_up_s: int, seconds: int) -> list[Scenario]:
    """Loads at full speed, by layout with its number of Starts in a micro-batch: the rate of Starts or heartbeats."""
    return [
        Scenario(load, layout, live, per_batch=rows, warm_up_s=warm_up_s, seconds=seconds)
        for layout, rows in per_batch.items()
    ]


def beside(scenarios: Iterable[Scenario], **other: Any) -> list[Scenario]:
    """Each scenario, and beside it the same with other fields."""
    return [variant for scenario in scenarios for variant in (scenario, replace(scenario, **other))]


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
MAPS = beside(
    [
        *full_speed("starts", 1_000_000, {_groups(1_000_000): 50_000, ONE_DEVICE: 10_000}, 45, 30),
        *full_speed("beats", 100_000, {_groups(100_000): 50_000}, 45, 30),
        *steady(100_000, _groups(100_000), sink="delta", warm_up_s=100, seconds=60),
    ],
    ids="text",
) + beside(
    [
        *full_speed("starts", 1_000_000, {_groups(1_000_000): 50_000}, 45, 30),
        *steady(500_000, _groups(500_000), sink="delta", seconds=120),
    ],
    labels=("title", "country", "build", "language"),
)

ACTIVITY = [
    *full_speed("beats", 100_000, {_groups(100_000): 50_000}, 45, 30),
    *full_speed("pings", 100_000, {_groups(100_000): 50_000, ONE_DEVICE: 50_000}, 45, 30),
    *beside(steady(100_000, _groups(100_000), sink="delta", warm_up_s=100, seconds=120), ping_s=60),
    *beside(steady(1_000_000, _groups(1_000_000), seconds=300), ping_s=120),
]


@dataclass(frozen=True)
class Delays:
    """p50, p99 and maximum in milliseconds."""

    p50_ms: int
    p99_ms: int
    max_ms: int

    @classmethod
    def of(cls, weighted: Iterable[tuple[int, int]]) -> "Delays | None":
        """The delays that half, and 99 in 100, of the rows do not exceed; None if there are no rows."""
        ordered = sorted((delay, rows) for delay, rows in weighted if rows)
        if not ordered:
            return None
        return cls(_within(ordered, 0.5), _within(ordered, 0.99), ordered[-1][0])


@dataclass
class Result:
    """The measurements of a run between the end of its warm-up and its end.

    `ticks_ms` has the duration of each micro-batch, in their order. `activities` are counted for `pings` alone. `late`
    is heartbeat lateness, `waited` is event to row. `cpu_s` and `peak_mb` are by kind of process (`jvm`, `python`);
    memory is proportional set size: pages that processes share count once.
    """

    seconds: float = 0
    ticks_ms: list[int] = field(default_factory=list)
    activities: int = 0
    started: int = 0
    heartbeats: int = 0
    ended: int = 0
    missed_beats: int = 0
    late: Weighted = field(default_factory=list)
    waited: Weighted = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mb: dict[str, float] = field(default_factory=dict)
    state_rows: int = 0
    state_mb: float = 0
    checkpoint_mb: float = 0

    def figures(self) -> dict[str, float]:
        """The figures of a report by name, without those that were not measured."""
        changes = max(1, self.started + self.heartbeats + self.ended + self.activities)
        figures: dict[str, float] = {
            "activities_per_s": self.activities / self.seconds,
            "starts_per_s": self.started / self.seconds,
            "heartbeats_per_s": self.heartbeats / self.seconds,
            "changes_per_s": changes / self.seconds,
            "cores": sum(self.cpu_s.values()) / self.seconds,
            "cpu_s_per_million_changes": sum(self.cpu_s.values()) / changes * 1e6,
            **{f"cpu_s_per_million_changes_{kind}": cpu_s / changes * 1e6 for kind, cpu_s in self.cpu_s.items()},
            **{f"peak_mb_{kind}": mb for kind, mb in self.peak_mb.items()},
            "peak_mb": sum(self.peak_mb.values()),
            "state_rows": self.state_rows,
            "state_mb": self.state_mb,
            "checkpoint_mb": self.checkpoint_mb,
            "ticks": len(self.ticks_ms),
            "missed_percent": 100 * self.missed_beats / max(1, self.missed_beats + self.heartbeats),
        }
        ticks = [(tick_ms, 1) for tick_ms in self.ticks_ms]
        for name, delays in (("tick", ticks), ("lateness", self.late), ("event_to_row", self.waited)):
            if found := Delays.of(delays):
                figures |= {f"{name}_{share}": value for share, value in asdict(found).items()}
        return figures


def _within(ordered: Sequence[tuple[int, int]], share: float) -> int:
    remaining = share * sum(rows for _, rows in ordered)
    for delay, rows in ordered:
        remaining -= rows
        if remaining <= 0:
            return delay
    return ordered[-1][0]
