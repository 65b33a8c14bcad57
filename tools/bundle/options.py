"""Checks of the jobs' parameters: the settings accept them, and a notebook gets the id of its run."""

from collections.abc import Iterator
from typing import Any

from sessionization.command_line.job_parameters import parameter_defaults, parameters_to_arguments
from sessionization.command_line.parser import read_settings
from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.errors import ConfigurationError
from sessionization.settings.kafka_options import parse_kafka_options
from tools.bundle.generate import bundle_files, generated
from tools.bundle.job_options import JOBS, LAPTOP_ONLY
from tools.bundle.resolve import Resolved
from tools.bundle.sources import Finding, Sources

_TOPIC_PARAMETER = "output-topic"
"""The parameter that has the parser's default in prod only: a topic belongs to one target."""


def generated_findings(sources: Sources) -> Iterator[Finding]:
    """Find files whose generated parts do not match the settings, the cluster's settings and the locks."""
    for file in bundle_files(sources.root):
        if generated(file) != file.read_text(encoding="utf-8"):
            yield Finding(f"bundles/{file.name}", "a generated part is not what the code gives: run `make bundle`")


def option_findings(sources: Sources, target: Resolved) -> Iterator[Finding]:
    for key, job in target.resources.get("jobs", {}).items():
        file = sources.file_of("jobs", key)
        if key not in JOBS:
            yield Finding(file, f"{key}: name its settings in tools/bundle/job_options.py")
            continue
        run_id = () if key == "predict_remaining" else _run_id_mistakes(job)  # its notebook is the same for both
        for mistake in (*_topic(target.target, key, job), *run_id, *value_mistakes(key, job)):
            yield Finding(file, f"{key}: {mistake}")


def _defaults(job: dict[str, Any]) -> dict[str, str]:
    return {str(parameter.get("name")): str(parameter.get("default")) for parameter in job.get("parameters", [])}


def _topic(target: str, key: str, job: dict[str, Any]) -> Iterator[str]:
    name, default = _defaults(job).get(_TOPIC_PARAMETER), parameter_defaults(JOBS[key].model).get(_TOPIC_PARAMETER)
    if name is not None and (name == default) is not (target == "prod"):
        yield f"parameter {_TOPIC_PARAMETER} is {name!r} in {target}: {default!r} must be prod's, and prod's alone"


def _run_id_mistakes(job: dict[str, Any]) -> Iterator[str]:
    """Check that a notebook gets the id of its run; without it, it shows a chart, stops soon, or hides failed tests."""
    for task in job.get("tasks", []):
        given = task.get("notebook_task", {}).get("base_parameters", {})
        if "notebook_task" in task and given.get(JOB_RUN_ID) != "{{job.run_id}}":
            yield f"task {task.get('task_key')}: base_parameters must give {JOB_RUN_ID} as {{{{job.run_id}}}}"


def value_mistakes(key: str, job: dict[str, Any]) -> Iterator[str]:
    """Check that the job's settings accept the default values of its parameters."""
    model = JOBS[key].model
    options = parameter_defaults(model).keys() - {LAPTOP_ONLY}
    given = {name: text for name, text in _defaults(job).items() if name in options}
    try:
        settings = read_settings(model, parameters_to_arguments(model, given))
        parse_kafka_options(getattr(settings, "kafka_option", ()))
    except (ConfigurationError, ValueError) as error:
        yield f"the parameters are refused: {error}"
