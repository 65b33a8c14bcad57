"""Write the parts of the bundle's files that follow from the code: `python -m tools.bundle.generate`, or `make bundle`.

A part is between the comments `# generated: PART (make bundle; do not edit)` and `# end of generated`. The options of
a job come from its settings, the Spark settings from `DATABRICKS_CONF`, the packages from the locks: what the runtime
lacks.

It also writes `tests/bundle/resolved_prod.json`, prod's resolved resources. A review sees the effect of a change there.
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from sessionization.command_line.job_parameters import option_name, parameter_defaults
from sessionization.spark.engine.job_conf import DATABRICKS_CONF
from tools.bundle.job_options import JOBS, LAPTOP_ONLY, parameters, reference, variable, volume_folder
from tools.bundle.pins import installed_with_the_wheel, tested_version
from tools.bundle.resolve import resolve
from tools.bundle.sources import ROOT, read_sources

RESOLVED = ROOT / "tests/bundle/resolved_prod.json"

_PART = re.compile(
    r"^(?P<indent> *)# generated: (?P<part>[a-z_ ]+?)(?: \([^\n]*\))?\n.*?^(?P=indent)# end of generated$",
    re.MULTILINE | re.DOTALL,
)
_LONGEST_LINE = 118
"""Of a variable, which the file indents by two more."""
_HOW_TO_CHANGE = "make bundle; do not edit"
_PLAIN = re.compile(r"[A-Za-z/$0-9][\w./${}-]*")
_NOT_A_STRING = re.compile(r"-?[0-9.]+|true|false|yes|no|on|off|null", re.IGNORECASE)


def generated(file: Path) -> str:
    """The text of a bundle file with its generated parts up to date.

    Raises `KeyError` for an unknown part or job.
    """
    job = file.name.partition(".")[0]

    def write(match: re.Match[str]) -> str:
        part, indent = match["part"], match["indent"]
        writer, _, named_job = part.partition(" of ")
        lines = _WRITERS[writer](named_job or job)
        begin, end = f"# generated: {part} ({_HOW_TO_CHANGE})", "# end of generated"
        return "\n".join(f"{indent}{line}" for line in (begin, *lines, end))

    return _PART.sub(write, file.read_text(encoding="utf-8"))


def bundle_files(root: Path = ROOT) -> list[Path]:
    return sorted((root / "bundles").glob("*.yml"))


def resolved_prod() -> str:
    """The resolved resources of the target prod, as JSON with sorted keys."""
    return f"{json.dumps(resolve(read_sources(ROOT), 'prod').resources, indent=1, sort_keys=True)}\n"


def _parameters(job: str) -> Iterator[str]:
    yield "parameters:"
    for option, text in parameters(job).items():
        yield f"  - name: {option}"
        yield f"    default: {_yaml(text)}"


def _arguments(job: str) -> Iterator[str]:
    yield "parameters:"
    for option in parameters(job):
        yield f"  - {json.dumps(f'--{option}={reference(option)}')}"


def _spark_conf(_job: str) -> Iterator[str]:
    for name, value in DATABRICKS_CONF.items():
        yield f"{name}: {_yaml(value)}"


def _logs(job: str) -> Iterator[str]:
    yield "cluster_log_conf:"
    yield "  volumes:"
    yield f"    destination: {volume_folder('logs')}/{job}"


def _libraries(job: str) -> Iterator[str]:
    for wheel in ("dist/*.whl", *JOBS[job].wheels):
        yield f"- whl: ../{wheel}"
    tests_only = {name: tested_version(name) for name in JOBS[job].packages}
    versions = installed_with_the_wheel(frozenset(JOBS[job].extras)) | tests_only
    for name, version in sorted(versions.items()):
        yield f"- pypi: {{package: {name}=={version}}}"


def _variables(job: str) -> Iterator[str]:
    options = JOBS[job]
    defaults = parameter_defaults(options.model) | options.defaults
    for name, field in options.model.model_fields.items():
        option = option_name(name, field)
        if option in options.values or option == LAPTOP_ONLY:
            continue
        yield f"{variable(job, option)}:"
        yield from _folded("description", _description(field, options.notes.get(option)))
        yield f"  default: {_yaml(defaults[option])}"


def _description(field: FieldInfo, note: str | None) -> str:
    extra, texts = field.json_schema_extra, [str(field.description)]
    if field.annotation is bool:
        texts.insert(0, "true or false")
    if isinstance(extra, dict) and extra.get("repeatable"):
        texts.append("several are separated by spaces")
    return "; ".join([*texts, *([note] if note else [])])


def _folded(key: str, text: str) -> Iterator[str]:
    """A key of a variable with its text, in several lines where one would be too long."""
    line = f"  {key}: {_yaml(text)}"
    if len(line) <= _LONGEST_LINE:
        yield line
    else:
        yield f"  {key}: >-"
        yield from textwrap.wrap(
            text, _LONGEST_LINE, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False
        )


def _yaml(text: str) -> str:
    """Write a text so that YAML reads the same text: plain if possible, otherwise quoted."""
    is_plain = all(_PLAIN.fullmatch(word) for word in text.split(" ")) and _NOT_A_STRING.fullmatch(text) is None
    return text if text and is_plain else json.dumps(text, ensure_ascii=False)


_WRITERS = {
    "parameters": _parameters,
    "arguments": _arguments,
    "spark_conf": _spark_conf,
    "libraries": _libraries,
    "logs": _logs,
    "variables": _variables,
}


def main() -> int:
    """Write the changed files, and print their names."""
    for file in bundle_files():
        text = generated(file)
        if text != file.read_text(encoding="utf-8"):
            file.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{file.relative_to(ROOT)}\n")
    RESOLVED.write_text(resolved_prod(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
