"""HDFS on this machine: a name node and a data node, each the real daemon in a process of its own."""

import json
import os
import re
import subprocess
from http.client import HTTPConnection
from pathlib import Path

from sessionization_laptop.engine.jars import jar_paths
from sessionization_laptop.engine.java import java_executable
from tests.support.daemons import LoggingDaemons
from tests.support.job import SPARK

_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_RPC_PORT = re.compile(r"NameNode RPC up at: \S*:(\d+)")
_WEB_PORT = re.compile(r"Jetty bound to port (\d+)")
_REGISTERED = re.compile(r"successfully registered with NN")

_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dlog4j2.level=info",
    "-Djava.io.tmpdir=.",
)

# Not all of Spark's jars: the nodes' web servers look for annotations in every jar, which takes seconds.
_OF_SPARK = ("hadoop-client-*.jar", "slf4j-api-*.jar", "log4j-*.jar", "jcl-over-slf4j-*.jar")

_SETTINGS = {
    "dfs.replication": "1",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.hostname": "127.0.0.1",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",  # 127.0.0.1 need not have a name
    "dfs.heartbeat.interval": "1",
}


class Hdfs(LoggingDaemons):
    """HDFS on free ports of 127.0.0.1, with one copy of each block. It ends with this process, and is used once.

    `uri` is where Spark reaches it: `hdfs://127.0.0.1:PORT`.
    """

    uri: str
    look_every_s = 0.2  # a look costs a dozen requests

    def _start(self) -> None:
        for name in ("hdfs", "datanode", "static"):  # no web pages: to unpack them from the jar takes seconds
            (self._folder / "webapps" / name).mkdir(parents=True)
        names = {"fs.defaultFS": "hdfs://127.0.0.1:0", "dfs.namenode.name.dir": (self._folder / "names").as_uri()}
        log, formatting = self._launch_node("format", _NAME_NODE, names, "-format", "-nonInteractive")
        self._wait_until(lambda: formatting.poll() == 0, formatting, log)
        log, name_node = self._launch_node("name-node", _NAME_NODE, names)
        rpc = self._found(_RPC_PORT, name_node, log)
        web = self._found(_WEB_PORT, name_node, log)
        self.uri = f"hdfs://127.0.0.1:{rpc[1]}"
        blocks = {"fs.defaultFS": self.uri, "dfs.datanode.data.dir": (self._folder / "blocks").as_uri()}
        log, data_node = self._launch_node("data-node", _DATA_NODE, blocks)
        self._found(_REGISTERED, data_node, log)
        self._wait_until(lambda: _is_writable(int(web[1])), data_node, log)

    def _launch_node(
        self, name: str, main_class: str, settings: dict[str, str], *arguments: str
    ) -> tuple[Path, subprocess.Popen[bytes]]:
        """Start a node, and return its log and its process."""
        jars = [*jar_paths("hdfs"), *(jar for pattern in _OF_SPARK for jar in (SPARK / "jars").glob(pattern))]
        class_path = os.pathsep.join(map(str, (self._folder, *jars)))
        options = [f"-D{name}={value}" for name, value in (_SETTINGS | settings).items()]
        return self._launch(name, [java_executable(), *_JVM, "-cp", class_path, main_class, *options, *arguments])


def _is_writable(web_port: int) -> bool:
    """Whether the name node knows how much its data node can take."""
    asking = HTTPConnection("127.0.0.1", web_port, timeout=20)
    asking.request("GET", "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")
    [state] = json.load(asking.getresponse())["beans"]
    return bool(state["CapacityRemaining"] > 0)
