"""The Kafka broker of the tests and the demo; each test uses a real broker."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from sessionization.errors import SetupError
from sessionization_laptop.broker import Broker
from tests.support.processes import processes_of_session

pytestmark = pytest.mark.job

_LONGEST_S = 20
_PARENT_PROCESS = """
import sys, time
from pathlib import Path
from sessionization_laptop.broker import Broker

with Broker(Path(sys.argv[1])) as broker:
    broker.create_topics({"left": 1})
    print(broker.pid, flush=True)
    time.sleep(600)
"""


def test_an_existing_topic_stays_and_an_invalid_topic_name_is_an_error(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker, here") as broker:
        broker.create_topics({"kept": 2})
        broker.create_topics({"kept": 1})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert len(admin.list_topics(timeout=_LONGEST_S).topics["kept"].partitions) == 2
        with pytest.raises(SetupError, match=r"topic no topic could not be created .*broker\.log"):
            broker.create_topics({"no topic": 1})


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux", reason="on other systems a broker ends with its parent only if Python exits normally"
)
def test_a_broker_ends_with_the_process_that_started_it_and_the_next_broker_can_use_its_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT_PROCESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert processes_of_session(broker) == [broker]
        parent.kill()
    deadline_s = time.monotonic() + 5
    try:
        while processes_of_session(broker):
            assert time.monotonic() < deadline_s, "the broker outlives its parent"
            time.sleep(0.02)
        with Broker(tmp_path) as next_broker:
            admin = AdminClient({"bootstrap.servers": next_broker.bootstrap_servers})
            assert "left" in admin.list_topics(timeout=_LONGEST_S).topics
    finally:
        for pid in processes_of_session(broker):
            os.kill(pid, signal.SIGKILL)


def test_the_error_of_a_broker_that_cannot_start_names_its_log_file(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"num.io.threads": "none"})
    with pytest.raises(SetupError, match=r"ended with code 1 while starting: .*broker\.log"):
        broker.start()
    assert "num.io.threads" in broker.log_file.read_text()
    assert broker.pid is None
