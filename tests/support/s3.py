"""A server with the interface of S3 on this machine, in a process of its own, with one bucket."""

import re
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from sessionization_laptop.engine.jars import jar_paths
from tests.support.daemons import LoggingDaemons
from tests.support.s3_files import S3Files

ACCESS_KEY = "tester"
BUCKET = "games"
SERVER = Path(__file__).with_name("s3_server.py")
PYTHON = Path(sys.prefix) / "s3" / "bin" / "python"
"""The interpreter that has the server's packages: `make .venv/.s3`."""
_PORT = re.compile(r"serving at port (\d+)")


class S3(LoggingDaemons):
    """S3 on a free port of 127.0.0.1. It ends with this process, with all objects.

    `uri` is where Spark reaches the bucket: `s3a://games`. `files` reads and writes it without Spark. `address` is that
    of the server.
    """

    uri = f"s3a://{BUCKET}"
    files: S3Files
    address: str
    look_every_s = 1.0  # the server has one thread's time for the job and the test

    def settings(self) -> dict[str, str]:
        """The settings with which Spark reaches the bucket, as docs/cluster.md shows them."""
        return {
            "spark.jars": ",".join(map(str, jar_paths("s3"))),
            "spark.hadoop.fs.s3a.endpoint": f"http://{self.address}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": "unused",
        }

    def let_reach(self, spark: SparkSession) -> None:
        """Let a session that runs reach the bucket, from now on."""
        conf = spark._jsc.hadoopConfiguration()
        for jar in jar_paths("s3"):
            conf.getClassLoader().addURL(spark._jvm.java.net.URL(jar.as_uri()))
        for name, value in self.settings().items():
            conf.set(name.removeprefix("spark.hadoop."), value)

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log, process = self._launch("s3", [str(PYTHON), str(SERVER), ACCESS_KEY])
        self.address = f"127.0.0.1:{self._found(_PORT, process, log)[1]}"
        self.files = S3Files(self.address, BUCKET, ACCESS_KEY)
        self.files.create_bucket()
