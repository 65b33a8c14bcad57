"""The real CLI, in a copy of the project, against a workspace of its own."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bundle.workspace.server import Workspace
from tools.bundle.sources import ROOT

_FOUND = shutil.which("databricks")
# What nutter brings into an environment, this one or another, is the CLI of old, which knows no bundles: a script.
BINARY = None if _FOUND is None or Path(_FOUND).read_bytes().startswith(b"#!") else _FOUND
_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Told:
    """What the CLI has said, and which requests it made."""

    out: str
    errors: str
    calls: list[tuple[str, str, int]]

    @property
    def everything(self) -> str:
        return self.out + self.errors


@dataclass(frozen=True, slots=True)
class Cli:
    """`cli("bundle", "deploy")` must succeed, `cli.refused("bundle", "deploy")` must not; `variables` are in its environment."""

    project: Path
    workspace: Workspace
    variables: Mapping[str, str] = field(default_factory=lambda: {"on_call": "on-call@studio.example"})

    def __call__(self, *words: str) -> Told:
        return self._run(words, succeeds=True)

    def refused(self, *words: str) -> Told:
        return self._run(words, succeeds=False)

    def _run(self, words: tuple[str, ...], *, succeeds: bool) -> Told:
        before = len(self.workspace.calls)
        ran = subprocess.run(
            [str(BINARY), *words],
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,  # nobody there to be asked
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        told = Told(ran.stdout, ran.stderr, self.workspace.calls[before:])
        story = f"{' '.join(words)} -> {ran.returncode}\n{told.everything}\nnot played: {self.workspace.unknown_calls}"
        assert (ran.returncode == 0) is succeeds, story
        assert self.workspace.unknown_calls == [], story
        return told

    def _environment(self) -> dict[str, str]:
        """Nothing of this machine's own set-up of the CLI plays a part."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_"))
        }
        # The project's own tools build the wheel, where they are: no registry is asked.
        build = {"BUILD": str(ROOT / ".venv-build/bin")} if (ROOT / ".venv-build/bin/.ready").exists() else {}
        return kept | build | {
            "DATABRICKS_HOST": self.workspace.host,
            "DATABRICKS_TOKEN": "none",
            "DATABRICKS_CONFIG_FILE": str(self.project.parent / "no-profiles"),
            # The CLI's default since 1.3. Its other engine, terraform, would be downloaded, with a provider.
            "DATABRICKS_BUNDLE_ENGINE": "direct",
            "HOME": str(self.project.parent),
        } | {f"BUNDLE_VAR_{name}": value for name, value in self.variables.items()}  # fmt: skip


def copy_project(folder: Path, branch: str = "main") -> Path:
    """The project's files as git has them, on a branch of a repository of their own, and nothing else."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", branch], ["add", "-A"], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder
