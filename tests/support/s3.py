"""A server with the interface of S3 on this machine, in a process of its own, with one bucket."""

import re
import sys
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from pyspark.sql import SparkSession

from sessionization_laptop.engine.jars import jar_paths
from tests.support.daemons import LoggingDaemons

ACCESS_KEY = "tester"
BUCKET = "games"
SERVER = Path(__file__).with_name("s3_server.py")
PYTHON = Path(sys.prefix) / "s3" / "bin" / "python"
"""The interpreter that has the server's packages: `make .venv/.s3`."""
_SIGNED = (
    f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none"
)
_PORT = re.compile(r"serving at port (\d+)")


class S3(LoggingDaemons):
    """S3 on a free port of 127.0.0.1. It ends with this process, with all objects.

    `uri` is where Spark reaches the bucket: `s3a://games`. `address` is that of the server.
    """

    uri = f"s3a://{BUCKET}"
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
        """Let a session that runs reach the bucket, from now on; a client of an earlier server is not used again."""
        conf = spark._jsc.hadoopConfiguration()
        for jar in jar_paths("s3"):
            conf.getClassLoader().addURL(spark._jvm.java.net.URL(jar.as_uri()))
        for name, value in self.settings().items():
            conf.set(name.removeprefix("spark.hadoop."), value)
        spark._jvm.org.apache.hadoop.fs.FileSystem.get(spark._jvm.java.net.URI(self.uri), conf).close()

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log, process = self._launch("s3", [str(PYTHON), str(SERVER), ACCESS_KEY])
        self.address = f"127.0.0.1:{self._found(_PORT, process, log)[1]}"
        asking = HTTPConnection(self.address, timeout=60)
        asking.request("PUT", f"/{BUCKET}", headers={"Authorization": _SIGNED})
        assert asking.getresponse().status == HTTPStatus.OK
