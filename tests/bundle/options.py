"""The parameters of the jobs against the parsers that read them: names, defaults, and that each has a variable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.job_parameters import parameter_defaults, parameters_to_arguments
from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.notebook.trial_stream import TrialSettings
from sessionization.ops.maintenance_settings import (
    EraseSettings,
    InspectSettings,
    LandChangesSettings,
    MaintainSettings,
    RescaleSettings,
)
from sessionization.settings.kafka_options import parse_kafka_options
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.simulate.simulate_settings import SimulateSettings
from tests.bundle.resolve import Resolved
from tests.bundle.sources import Finding, Sources

SETTINGS: dict[str, type[BaseModel]] = {
    "sessionize": SessionizeSettings,
    "simulate": SimulateSettings,
    "maintain": MaintainSettings,
    "backfill": BackfillSettings,
    "erase_account": EraseSettings,
    "inspect_state": InspectSettings,
    "rescale_state": RescaleSettings,
    "land_changes": LandChangesSettings,
    "workspace_tests": TrialSettings,
}
LAPTOP_ONLY = "warehouse"
"""The option that a cluster has no use for: the tables are in a catalog there."""
_CATALOG = "${resources.schemas.sessions.catalog_name}"
_SCHEMA = "${resources.schemas.sessions.name}"
_VOLUME = "/Volumes/" + "/".join(
    f"${{resources.volumes.checkpoints.{part}}}" for part in ("catalog_name", "schema_name", "name")
)
SET_BY_BUNDLE = {
    ("sessionize", "input"): "${var.sessionize_input}",
    ("sessionize", "output-topic"): "${var.output_topic}",
    ("land_changes", "output-topic"): "${var.output_topic}",
    ("sessionize", "catalog"): _CATALOG,
    ("sessionize", "schema"): _SCHEMA,
    ("sessionize", "checkpoints"): f"{_VOLUME}/sessionize",
    ("simulate", "output"): "${var.simulate_output}",
    ("land_changes", "catalog"): _CATALOG,
    ("land_changes", "schema"): _SCHEMA,
    ("land_changes", "checkpoints"): f"{_VOLUME}/land_changes",
    ("maintain", "catalog"): _CATALOG,
    ("maintain", "schema"): _SCHEMA,
    ("maintain", "checkpoints"): f"{_VOLUME}/sessionize",
    ("backfill", "catalog"): _CATALOG,
    ("backfill", "schema"): _SCHEMA,
    ("backfill", "checkpoints"): f"{_VOLUME}/sessionize",
    ("erase_account", "catalog"): _CATALOG,
    ("erase_account", "schema"): _SCHEMA,
    ("erase_account", "checkpoints"): f"{_VOLUME}/sessionize",
    ("maintain", "input-retention"): "${var.maintain_input_retention}",
    ("inspect_state", "checkpoints"): f"{_VOLUME}/sessionize",
    ("rescale_state", "checkpoints"): f"{_VOLUME}/sessionize",
    ("rescale_state", "partitions"): "${var.shuffle_partitions}",
    ("workspace_tests", "catalog"): _CATALOG,
    ("workspace_tests", "schema"): _SCHEMA,
    ("workspace_tests", "folder"): _VOLUME,
    ("workspace_tests", "reader"): "${var.reader}",
}
"""What a job and its option get in place of the parser's default. Every other option gets the variable `JOB_OPTION`, and that
has the parser's default."""
_USUAL_IN_PROD = ("output-topic",)
"""Of these prod has the parser's default, and no other target: what it names is of one target alone."""


def option_findings(sources: Sources, target: Resolved) -> Iterator[Finding]:
    for key, job in target.resources.get("jobs", {}).items():
        file = sources.file_of("jobs", key)
        if key not in SETTINGS:
            yield Finding(file, f"{key}: name its settings in tests/bundle/options.py")
            continue
        for mistake in (
            *_parameters(target.target, key, job),
            *_words(key, job),
            *_as_task(job),
            *value_mistakes(key, job),
        ):
            yield Finding(file, f"{key}: {mistake}")
    yield from _variables(sources)


def reference(option: str) -> str:
    """How a task refers to a parameter of its job; names with a dash are quoted."""
    return f"{{{{job.parameters.{f'`{option}`' if '-' in option else option}}}}}"


def _expected(key: str) -> dict[str, str]:
    defaults = parameter_defaults(SETTINGS[key])
    return {option: text for option, text in defaults.items() if option != LAPTOP_ONLY}


def _given(job: dict[str, Any]) -> dict[str, str]:
    return {str(parameter.get("name")): str(parameter.get("default")) for parameter in job.get("parameters", [])}


def _parameters(target: str, key: str, job: dict[str, Any]) -> Iterator[str]:
    expected, given = _expected(key), _given(job)
    names = [str(parameter.get("name")) for parameter in job.get("parameters", [])]
    for name in {name for name in names if names.count(name) > 1}:
        yield f"parameter {name} stands there twice"
    for name in sorted(given.keys() - expected.keys()):
        yield f"parameter {name} is no option of jobs/{key}.py"
    for name in sorted(expected.keys() - given.keys()):
        yield f"parameter {name} is missing: jobs/{key}.py has the option --{name}"
    for name in expected.keys() & given.keys():
        if name in _USUAL_IN_PROD:
            if (given[name] == expected[name]) is not (target == "prod"):
                yield f"parameter {name} is {given[name]!r} in {target}: {expected[name]!r} must be prod's, and prod's alone"
        elif (key, name) not in SET_BY_BUNDLE and given[name] != expected[name]:
            yield f"parameter {name} is {given[name]!r} by default, but --{name} is {expected[name]!r}"
        elif (key, name) in SET_BY_BUNDLE and given[name] == expected[name]:
            yield f"parameter {name} is {given[name]!r}, the default of --{name}: take it from SET_BY_BUNDLE"


def _words(key: str, job: dict[str, Any]) -> Iterator[str]:
    """A file takes its options as words: each must be handed on, as its job's parameter."""
    wanted = [f"--{option}={reference(option)}" for option in _expected(key)]
    for task in job.get("tasks", []):
        if "spark_python_task" not in task:
            continue
        words = [str(word) for word in task["spark_python_task"].get("parameters", [])]
        for word in words:
            if word not in wanted:
                yield f"task {task.get('task_key')}: {word} hands on no option of jobs/{key}.py"
        for word in wanted:
            if word not in words:
                yield f"task {task.get('task_key')}: {word} is missing"
        if Path(str(task["spark_python_task"].get("python_file"))).stem != key:
            yield f"task {task.get('task_key')} must run jobs/{key}.py"


def _as_task(job: dict[str, Any]) -> Iterator[str]:
    """A notebook must know that a job runs it: else it shows a chart, stops soon, or hides that its tests failed."""
    for task in job.get("tasks", []):
        given = task.get("notebook_task", {}).get("base_parameters", {})
        if "notebook_task" in task and given.get(JOB_RUN_ID) != "{{job.run_id}}":
            yield f"task {task.get('task_key')}: base_parameters must give {JOB_RUN_ID} as {{{{job.run_id}}}}"


def value_mistakes(key: str, job: dict[str, Any]) -> Iterator[str]:
    """The settings themselves must take what a target gives by default."""
    model = SETTINGS[key]
    given = {name: text for name, text in _given(job).items() if name in _expected(key)}
    from sessionization.command_line.parser import read
    from sessionization.errors import ConfigurationError

    try:
        settings = read(model, parameters_to_arguments(model, given))
        parse_kafka_options(getattr(settings, "kafka_option", ()))
    except (ConfigurationError, ValueError) as error:
        yield f"the parameters are refused: {error}"


def _variables(sources: Sources) -> Iterator[Finding]:
    """Every option is reached by the variable JOB_OPTION, where no resource says it."""
    for file, kind, key, job in sources.resources():
        if kind != "jobs" or key not in SETTINGS:
            continue
        for parameter in job.get("parameters", []):
            name = str(parameter.get("name"))
            wanted = SET_BY_BUNDLE.get((key, name), f"${{var.{key}_{name.replace('-', '_')}}}")
            if parameter.get("default") != wanted:
                yield Finding(file, f"{key}: parameter {name} must be {wanted}, so that it is said in one place")
