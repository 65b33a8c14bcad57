"""Make a release: `make release VERSION=0.3.0`, in a clean checkout. Nothing leaves this machine.

It sets the version, names the changelog's section, builds wheel and sdist into build/release, tries them, then commits
and tags. Where a step fails, the checkout is as before. Before a release that changes a layout, keep a checkpoint of
it for the upgrade's test: `python -m tests.fixtures.release_checkpoint`.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from zipfile import Path as PathInZip

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
PROJECTS = ("pyproject.toml", "lib/sessionization/pyproject.toml", "lib/sessionization_simulator/pyproject.toml")
"""The project of a release, and those of the bundle's wheels."""
_VERSION = re.compile(r"""(?<=^version = ")[^"]+|(?<=^expression = "version\(')[^']+""", re.MULTILINE)
_NEXT = re.compile(r"^## Next release\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def released(changelog: str, version: str) -> str:
    """The changelog with the section of the next release named; raises `ValueError` where it says nothing."""
    section = _NEXT.search(changelog)
    if section is None or not section[1].strip():
        msg = f"{CHANGELOG} says nothing under '## Next release': write what has changed"
        raise ValueError(msg)
    return changelog.replace("## Next release\n", f"## {version}\n", 1)


def with_version(project: str, version: str) -> str:
    """A pyproject.toml with another version; raises `ValueError` for one that is not newer, or no plain release."""
    [present] = _VERSION.findall(project)
    try:
        is_newer = Version(version) > Version(present)
    except InvalidVersion:
        is_newer = False
    if not is_newer or not re.fullmatch(r"\d+\.\d+\.\d+", version):
        msg = f"'{version}' does not come after {present}: give a version such as 0.3.0"
        raise ValueError(msg)
    return _VERSION.sub(version, project)


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build what is asked for ("wheel", "sdist") into an empty folder; return the files, a wheel first."""
    options = [word for kind in kinds for word in ("--target", kind)]
    _run(source, sys.executable, "-m", "hatchling", "build", *options, "--directory", str(target))
    return sorted(target.iterdir())


def refuse_other_wheel_of_sdist(sdist: Path, wheel: Path) -> None:
    """Raise `ValueError` where the sdist, built without a network, does not give the same wheel."""
    with tempfile.TemporaryDirectory() as temporary, tarfile.open(sdist) as archive:
        archive.extractall(temporary, filter="data")
        [again] = build(Path(temporary, sdist.name.removesuffix(".tar.gz")), Path(temporary, "dist"), "wheel")
        if again.name != wheel.name or again.read_bytes() != wheel.read_bytes():
            msg = f"{sdist.name} gives another wheel than {wheel.name}"
            raise ValueError(msg)


def scripts_of(wheel: Path) -> dict[str, str]:
    """By name of a console script of a wheel what it calls, as `module:function`."""
    name, version, *_ = wheel.name.split("-")
    inside: Distribution = PathDistribution(PathInZip(wheel, f"{name}-{version}.dist-info/"))
    return {script.name: script.value for script in inside.entry_points.select(group="console_scripts")}


def try_in_empty_environment(wheel: Path) -> None:
    """Install a wheel alone, without an extra, and ask each script for its help."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python = folder / "bin" / "python"
        _run(folder, sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, temporary)
        _run(folder, sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python), str(wheel))
        for script in scripts_of(wheel):
            _run(folder, "env", "-i", "PATH=/usr/bin:/bin", str(folder / "bin" / script), "--help")


def build_and_try() -> list[Path]:
    """Build wheel and sdist of this checkout into build/release, and try them; return both."""
    target = ROOT / "build" / "release"
    shutil.rmtree(target, ignore_errors=True)
    wheel, sdist = build(ROOT, target, "sdist", "wheel")
    refuse_other_wheel_of_sdist(sdist, wheel)
    try_in_empty_environment(wheel)
    return [wheel, sdist]


def release(version: str) -> list[Path]:
    """Make the release; return wheel and sdist. Raises `ValueError` or `CalledProcessError` where it cannot be made."""
    if _run(ROOT, "git", "status", "--porcelain"):
        msg = "the checkout has changes: commit them first"
        raise ValueError(msg)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in (CHANGELOG, *PROJECTS)}
    changed = {name: (released if name == CHANGELOG else with_version)(text, version) for name, text in texts.items()}
    try:
        _write(changed)
        files = build_and_try()
        _run(ROOT, "git", "commit", "--quiet", "--all", "--message", f"chore: release {version}")
    except BaseException:
        _write(texts)
        raise
    _run(ROOT, "git", "tag", "--annotate", f"v{version}", "--message", f"Release {version}")
    return files


def _write(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (ROOT / name).write_text(text, encoding="utf-8")


def _run(folder: Path, *words: str) -> str:
    """Run a program in a folder; return what it prints."""
    return subprocess.run(words, cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    try:
        files = release(sys.argv[1])
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"release: {error}")
    sys.stdout.write("\n".join(["tagged; to publish it: git push --follow-tags, and upload", *map(str, files)]) + "\n")
