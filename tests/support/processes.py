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


def engine_of(session: int) -> int:
    """The engine of a session. For a moment an engine that starts a process has a child with its own command."""
    engines = [pid for pid in processes_of_session(session) if is_engine(pid)]
    [engine] = [pid for pid in engines if _parent_of(pid) not in {None, *engines}]
    return engine


def _parent_of(pid: int) -> int | None:
    """The id of a process's parent, None if the process has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


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
