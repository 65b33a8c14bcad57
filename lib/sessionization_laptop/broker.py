"""A single-node Apache Kafka broker in a child process, for tests and the demo."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from sessionization.errors import SetupError
from sessionization_laptop.child_process import end_with_this_process
from sessionization_laptop.engine.jars import jar_paths
from sessionization_laptop.engine.java import java_executable

# Below the ports that systems assign to outgoing connections. A client that retries a killed broker could otherwise
# be assigned the broker's own port, connect to itself, and prevent the broker from restarting.
_PORTS = range(20_000, 32_000)
_READY = "Kafka Server started"
_READY_S = 60
_STOP_S = 10
_TOPIC_S = 20
_POLL_S = 0.05
_CLUSTER = "c2Vzc2lvbml6YXRpb24tMQ"  # "sessionization-1" as Kafka writes identifiers

_JVM = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",  # logs when the broker is ready
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": "log",  # relative, because a path with commas or accents would be misread here
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),  # by default a third of the heap
    "message.max.bytes": str(12 * 1024 * 1024),
    "controlled.shutdown.enable": "false",  # no other node could take over
    # A killed broker can register again only after its old session ends; the default is 9 s. If a busy machine
    # delays the broker's heartbeats for longer than this, the broker loses its partitions for a moment.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
}


class Broker:
    """One broker with its folder and its port, both fixed.

    It listens on 127.0.0.1 only. `stop` and `kill` leave the records, and the next `start` continues with them.

    On Linux the kernel kills the broker when the thread that started it ends, even by SIGKILL. So start it from a
    thread that lives as long as the broker is needed, such as the main one.
    """

    def __init__(self, folder: Path, config: Mapping[str, str] | None = None) -> None:
        """Use `folder` for the records and `broker.log`; records of an earlier broker there are reused.

        `config` holds settings by their Kafka names; they override the defaults for a laptop.
        """
        self.log_file = folder.absolute() / "broker.log"
        self._folder = folder.absolute()
        self._config = dict(config or {})
        self._ports = _free_ports()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int | None:
        """The id of the broker's process; None unless it is alive."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the broker, and return when it serves clients; does nothing if it already runs.

        Raises `SetupError` when it does not start within a minute.
        """
        if self.pid is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        log_position = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._write_settings()
        if not (self._folder / "log" / "meta.properties").exists():
            arguments = ("format", "--cluster-id", _CLUSTER, "--config", "server.properties")
            process = self._launch("kafka.tools.StorageTool", *arguments)
            self._wait_until(process, lambda: process.poll() == 0)
        process = self._launch("kafka.Kafka", "server.properties")
        self._wait_until(process, lambda: _READY in self._logged_since(log_position))

    def stop(self) -> None:
        """Shut the broker down with SIGTERM, and kill it after 10 s."""
        self._signal_and_wait(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker with SIGKILL; acknowledged records survive, because they are in the system's caches."""
        self._signal_and_wait(signal.SIGKILL)

    def create_topics(self, partitions: Mapping[str, int], **config: str) -> None:
        """Create topics; an existing topic is left unchanged.

        `config` holds topic settings with underscores for dots, such as `retention_ms="1000"`. By default records
        carry the time at which the broker appends them, as their ingest time.

        Raises `SetupError` when the broker refuses.
        """
        from confluent_kafka import KafkaError
        from confluent_kafka.admin import AdminClient, NewTopic

        settings = {"message.timestamp.type": "LogAppendTime"}
        settings |= {name.replace("_", "."): value for name, value in config.items()}
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        topics = [NewTopic(name, number, replication_factor=1, config=settings) for name, number in partitions.items()]
        timeouts = {"operation_timeout": _TOPIC_S, "request_timeout": _TOPIC_S}
        for name, created in admin.create_topics(topics, **timeouts).items():
            error = created.exception()  # raised, it would hold the client and its connection open
            if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                msg = f"topic {name} could not be created ({error.args[0].str()}): see {self.log_file}"
                raise SetupError(msg)

    def _write_settings(self) -> None:
        broker, controller = (f"127.0.0.1:{port}" for port in self._ports)
        settings = {
            "listeners": f"BROKER://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"BROKER://{broker}",
            "controller.quorum.voters": f"1@{controller}",
        }
        lines = (f"{name}={value}\n" for name, value in (_SETTINGS | settings | self._config).items())
        (self._folder / "server.properties").write_text("".join(lines), encoding="utf-8")

    def _launch(self, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        class_path = os.pathsep.join(str(path) for path in jar_paths("broker"))
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [java_executable(), *_JVM, "-cp", class_path, main_class, *arguments],
                cwd=self._folder,
                # These options are for the engine's JVM, and may conflict with ours, such as the garbage collector.
                env={name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal must not reach the broker
                preexec_fn=end_with_this_process(),  # noqa: PLW1509 - only two system calls, and no lock
            )
        return self._process

    def _wait_until(self, process: subprocess.Popen[bytes], is_reached: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _READY_S
        while True:
            code = process.poll()
            if is_reached():
                return
            if code is not None or time.monotonic() > deadline_s:
                self.kill()
                outcome = f"did not start in {_READY_S} s" if code is None else f"ended with code {code} while starting"
                msg = f"the Kafka broker {outcome}: see why at the end of {self.log_file}"
                raise SetupError(msg)
            time.sleep(_POLL_S)

    def _logged_since(self, log_position: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(log_position)
            return log.read().decode(errors="replace")

    def _signal_and_wait(self, signal_number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal_number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
            self._process.kill()
            self._process.wait()
        self._process = None


def _free_ports() -> tuple[int, int]:
    """Find two ports that are free now: for clients and for the controller."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) > 1:
            break
    return free[0], free[1]
