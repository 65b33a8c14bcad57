"""The version of a wheel of the bundle: the release and a hash of its content, so that other code never has its name.

Hatch runs this page at every build; the release stands in the wheel's pyproject.toml (`tool.hatch.version`). A cluster
installs a wheel by its path: under one name for all versions, a worker that comes later would bring other code into a
job that runs. The wheel of a release has its plain version: nothing else has its name.
"""

import hashlib
from pathlib import Path

_DIGITS = 12


def version(release: str, package: str, root: Path = Path(__file__).parent) -> str:
    """`RELEASE+HASH` of a folder in `lib`: the same content has the same version everywhere."""
    folder = root / "lib" / package
    files = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    content = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.relative_to(root).as_posix()):
        name, text = file.relative_to(root).as_posix().encode(), file.read_bytes()
        content.update(b"%d %s %d " % (len(name), name, len(text)) + text)
    return f"{release}+{content.hexdigest()[:_DIGITS]}"
