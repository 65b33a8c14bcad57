"""A page of the options of all jobs, from the fields of their settings, which `--help` shows too."""

import ast
import inspect
import runpy
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from sessionization.command_line.options import Option, options_of


def options_page(jobs: Path) -> str:
    """The page as Markdown, of each script in a folder that runs a job."""
    lines = ["# Every option", "", "What `python jobs/NAME.py --help` says, and where a [settings file](settings.md)"]
    lines += ["has the value.", ""]
    for script in sorted(jobs.glob("*.py")):
        for title, model in _settings_of(script):
            lines += [f"## {title}", "", inspect.getdoc(model) or "", ""]
            lines += ["| option | default | in the file | |", "|---|---|---|---|", *map(_row, options_of(model)), ""]
    return "\n".join(lines)


def _settings_of(script: Path) -> Iterator[tuple[str, type[BaseModel]]]:
    """The settings that a script gives to `run_job`; a second one of the same script has its class in the title."""
    calls = [
        node.args[1].id
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "run_job"
        and isinstance(node.args[1], ast.Name)
    ]
    names = runpy.run_path(str(script))
    for call in calls:
        model = names[call]
        yield (f"{script.name} --sample" if call == "SampleSettings" else script.name), model


def _row(option: Option) -> str:
    value = "" if option.is_flag else f" {'|'.join(option.choices) or option.metavar}"
    written = f"--{option.name}{value}".replace("|", "\\|")
    meaning = option.description.replace("|", "\\|").replace("<", "&lt;")
    extra = [word for word, is_so in (("required", option.is_required), ("repeatable", option.is_repeatable)) if is_so]
    default = f"`{option.default}`" if option.default else ""
    return f"| `{written}` | {default} | `{'.'.join(option.path)}` | {'; '.join([meaning, *extra])} |"
