"""CPU time and memory of this process, or of another one, and its descendants, by kind."""

import os
from collections import Counter
from pathlib import Path

_KB_IN_MB = 1024


def cpu_s(root: int | None = None) -> Counter[str]:
    """CPU seconds by kind of process, including children that have ended."""
    used: Counter[str] = Counter()
    for pid, kind in _processes(root or os.getpid()):
        if fields := _stat(pid):
            used[kind] += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return used


def memory_mb(root: int | None = None) -> Counter[str]:
    """Proportional set size by kind of process: pages that processes share count once."""
    used: Counter[str] = Counter()
    for pid, kind in _processes(root or os.getpid()):
        for line in _lines(pid, "smaps_rollup"):
            if line.startswith("Pss:"):
                used[kind] += int(line.split()[1]) / _KB_IN_MB
    return used


def _processes(root: int) -> list[tuple[int, str]]:
    """The process and its descendants: `jvm` for those of Java, `python` for all others."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            parents[int(folder.name)] = int(fields[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [(pid, "jvm" if _program(pid) == "java" else "python") for pid in sorted(found)]


def _program(pid: int) -> str:
    return Path(" ".join(_lines(pid, "cmdline")).partition("\0")[0]).name


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; empty if the process has ended."""
    return " ".join(_lines(pid, "stat")).rpartition(")")[2].split()


def _lines(pid: int | str, name: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
