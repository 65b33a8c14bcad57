"""The processes of a session of the operating system: a job is the leader of one."""

import os
import subprocess
from pathlib import Path


def processes_of_session(session: int) -> list[int]:
    """The live processes of a session, without dead ones that their parent has not collected yet."""
    pids = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
    processes = [line.split() for line in pids.splitlines()]
    return [int(pid) for pid, state in processes if not state.startswith("Z") and session_of(int(pid)) == session]


def runs_script(pid: int, script: str | Path) -> bool:
    """Whether the command of a process names a script."""
    return str(script).encode() in _command(pid)


def is_engine(pid: int) -> bool:
    """Whether a process is a Spark engine."""
    return b"org.apache.spark.deploy.SparkSubmit" in _command(pid)


def _command(pid: int) -> list[bytes]:
    """The words of a process's command; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def session_of(pid: int) -> int | None:
    """The id of a process's session, None if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None
