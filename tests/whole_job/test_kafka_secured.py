"""A broker behind TLS: simulator and job sign in, and no secret is in anything that they write."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramMechanism, UserScramCredentialDeletion

from sessionization_laptop.engine.jars import jar_paths
from tests.support import checkpoints
from tests.support.job import SIMULATE, Ended, Job, command, environment, run_to_end
from tests.support.secured_broker import CLIENT_SECRET, PASSWORD, SecuredBroker, jaas, secured_broker
from tests.support.tables import read_tables
from tests.support.topics import Topics

pytestmark = [pytest.mark.job, pytest.mark.long]

WRONG = "not-the-secret"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with messages in both topics, which the simulator has sent."""
    with secured_broker(tmp_path_factory.mktemp("broker")) as broker:
        client = broker.librdkafka_options("studio", "env:STUDIO_PASSWORD")
        words = command(
            "--sink=kafka", f"--bootstrap-servers={broker.bootstrap_servers}",
            *(f"--kafka-option={name}={value}" for name, value in client.items()),
            "--live=20", "--rate=20", "--dirt=0", "--duration=15s", entry=(SIMULATE,),
        )  # fmt: skip
        subprocess.run(words, env=environment(STUDIO_PASSWORD=PASSWORD), check=True)
        yield broker


def run_job(broker: SecuredBroker, options: dict[str, str], folder: Path, *more: str) -> Ended:
    """Run the job to its end, with all that it writes below the folder."""
    ended = run_to_end(
        "--source=kafka", f"--bootstrap-servers={broker.bootstrap_servers}",
        *(f"--kafka-option={name}={value}" for name, value in options.items()),
        f"--warehouse={folder / 'warehouse'}", f"--checkpoints={folder / 'checkpoints'}",
        f"--mlflow=sqlite:///{folder / 'mlflow.db'}", *more,
        cwd=folder,
    )  # fmt: skip
    (folder / "stderr.txt").write_text("\n".join(ended.lines), encoding="utf-8")
    return ended


def files_with_a_secret(folder: Path, broker: SecuredBroker) -> list[Path]:
    secrets = [secret.encode() for secret in (PASSWORD, CLIENT_SECRET, WRONG, *broker.tokens.given)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


@pytest.mark.parametrize("mechanism", SecuredBroker.mechanisms)
def test_who_signs_in_reads_everything_who_cannot_gets_one_line_and_no_secret_is_written(
    broker: SecuredBroker, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_JAAS", jaas(mechanism, WRONG))
    (tmp_path / "refused").mkdir()
    ended = run_job(broker, broker.client_options(mechanism), tmp_path / "refused")
    assert ended.code == 2
    assert "sessionize: --bootstrap-servers" in ended.lines[-1]
    assert "kafka.sasl.jaas.config" in ended.lines[-1]

    monkeypatch.setenv("STUDIO_JAAS", jaas(mechanism))
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")
    tracking = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    tracking.search_experiments()  # creates the database, which takes longer than the job's last seconds
    ended = run_job(broker, broker.client_options(mechanism), tmp_path, "--run-for=30s")
    assert ended.code == 0, ended.lines[-3:]
    rows = read_tables(tmp_path / "warehouse")["raw_events"]
    archived = Counter((row["stream"], row["partition"]) for row in rows)
    assert archived == Topics(broker.bootstrap_servers, 1, client_options=broker.librdkafka_options()).ends()
    assert min(archived.values()) > 0
    assert len(tracking.search_runs([experiment.experiment_id for experiment in tracking.search_experiments()])) == 1
    assert files_with_a_secret(tmp_path, broker) == []


def test_amazons_sign_in_is_found_on_the_class_path_and_asks_for_credentials(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    line = "kafka.sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;"
    handler = "kafka.sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    given = broker.client_options("AWS_MSK_IAM")
    del given["kafka.sasl.jaas.config"]
    options = [f"--kafka-option={text}" for text in (line, handler, *(f"{name}={given[name]}" for name in given))]
    job = Job(tmp_path, *options, topics=Topics(broker.bootstrap_servers, 1))
    nobody = {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    job.variables = nobody | {"AWS_EC2_METADATA_DISABLED": "true"}
    for jars, said in ((), "a class of --kafka-option is not there"), (jar_paths("msk"), "credentials"):
        job.conf = {"spark.jars": ",".join(map(str, jars))} if jars else {}
        with job:
            job.start()
            assert job.wait_for_end(within_s=240) == 2
        assert said in job.output_lines()[-1]


def test_a_user_that_is_taken_away_ends_the_job_with_one_line_and_no_secret_is_written(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    """The engine then prints the query's plan, with the source's options."""
    topics = Topics(broker.bootstrap_servers, 1)
    options = (f"--kafka-option={name}={value}" for name, value in broker.client_options("SCRAM-SHA-512").items())
    job = Job(tmp_path, *options, topics=topics)
    job.variables = {"STUDIO_JAAS": jaas("SCRAM-SHA-512")}
    sessionize = job.checkpoints / "sessionize"
    with job:
        job.start()
        job.wait_until(lambda: checkpoints.last_committed(sessionize) > 0, "a micro-batch")
        client = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0} | broker.librdkafka_options()
        admin = AdminClient(client)
        gone = UserScramCredentialDeletion("studio", ScramMechanism.SCRAM_SHA_512)
        for changed in admin.alter_user_scram_credentials([gone]).values():
            changed.result(30)
        broker.broker.kill()
        broker.start()
        producer = Producer(client)
        producer.produce("pc_sessions", b"{}")
        assert producer.flush(30) == 0
        assert job.wait_for_end(within_s=300) == 1
    last = job.output_lines()[-1]
    assert "SaslAuthenticationException" in last
    assert "start again with the same options" in last
    assert "kafka.sasl.jaas.config" in last
    assert files_with_a_secret(tmp_path, broker) == []
