"""Files that are there whole or not at all."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Write a file so that no kill and no loss of power leaves part of it; raises `OSError`."""
    written = file.with_name(f".{file.name}.tmp")
    with written.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    written.replace(file)
