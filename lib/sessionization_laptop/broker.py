"""A single-node Apache Kafka broker in a child process, for tests and the demo."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sessionization.errors import SetupError
from sessionization_laptop.engine.jars import jar_paths
from sessionization_laptop.engine.java import java_executable
from sessionization_laptop.server_process import ServerProcess, free_ports

_READY = "Kafka Server started"
_TOPIC_S = 20
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


class Broker(ServerProcess):
    """One broker with its folder and its ports, which stay the same. It listens on 127.0.0.1 only."""

    title = "Kafka broker"

    def __init__(self, folder: Path, config: Mapping[str, str] | None = None) -> None:
        """Use `folder` for the records and `broker.log`; records of an earlier broker there are reused.

        `config` holds settings by their Kafka names; they override the defaults for a laptop.
        """
        super().__init__(folder, "broker.log")
        self._config = dict(config or {})
        self._client_port, self._controller_port = free_ports(2)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._client_port}"

    def start(self) -> None:
        if self.pid is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        log_position = self._log_position()
        self._write_settings()
        if not (self.folder / "log" / "meta.properties").exists():
            arguments = ("format", "--cluster-id", _CLUSTER, "--config", "server.properties")
            process = self._launch_java("kafka.tools.StorageTool", *arguments)
            self._wait_until(process, lambda: process.poll() == 0)
        process = self._launch_java("kafka.Kafka", "server.properties")
        self._wait_until(process, lambda: _READY in self._logged_since(log_position))

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
        controller = f"127.0.0.1:{self._controller_port}"
        settings = {
            "listeners": f"BROKER://{self.bootstrap_servers},CONTROLLER://{controller}",
            "advertised.listeners": f"BROKER://{self.bootstrap_servers}",
            "controller.quorum.voters": f"1@{controller}",
        }
        lines = (f"{name}={value}\n" for name, value in (_SETTINGS | settings | self._config).items())
        (self.folder / "server.properties").write_text("".join(lines), encoding="utf-8")

    def _launch_java(self, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        class_path = os.pathsep.join(str(path) for path in jar_paths("broker"))
        # These options are for the engine's JVM, and may conflict with ours, such as the garbage collector.
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
        command = [java_executable(), *_JVM, "-cp", class_path, main_class, *arguments]
        return self._launch(command, self.folder, environment=environment)
