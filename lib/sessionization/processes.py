"""Whether a process runs, and where its id holds."""

import os
from pathlib import Path


def pid_scope() -> str | None:
    """Identify the scope of this process's id: the machine's boot and the container in it; None if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return None


def is_alive(pid: int) -> bool:
    """Whether a process of this machine, or of this container, runs; true also where its id has gone to another."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
