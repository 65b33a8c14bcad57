"""The options of a job as notebook widgets."""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel

from sessionization.command_line.options import options_of, task_arguments
from sessionization.command_line.parser import read_settings
from sessionization.errors import ConfigurationError

M = TypeVar("M", bound=BaseModel)

JOB_RUN_ID: Final = "job-run-id"
"""The widget that only a job fills, with `{{job.run_id}}`. It shows whether a job or a person runs the notebook."""


class WidgetBar(Protocol):
    """The methods of `dbutils.widgets` that this module uses, in a workspace or on a laptop."""

    def text(self, name: str, defaultValue: str, label: str) -> None: ...  # noqa: N803 - as Databricks calls it

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str) -> None: ...  # noqa: N803

    def get(self, name: str) -> str: ...


def make_widgets(model: type[BaseModel], widgets: WidgetBar) -> None:
    """Make a widget for every option of a job, with its name. An empty one means: as in the file, or the default."""
    for option in options_of(model):
        label = f"{option.name} ({option.default})" if option.default else option.name
        choices = ["false", "true"] if option.is_flag else list(option.choices)
        if choices:
            widgets.dropdown(option.name, "", ["", *choices], label)
        else:
            widgets.text(option.name, "", label)


def make_job_run_id_widget(widgets: WidgetBar) -> None:
    """Make the widget that distinguishes a job from a person: a person leaves it empty."""
    widgets.text(JOB_RUN_ID, "", f"{JOB_RUN_ID} (filled by the job)")


def is_run_by_a_job(widgets: WidgetBar) -> bool:
    return bool(widgets.get(JOB_RUN_ID).strip())


def read_widgets(model: type[M], widgets: WidgetBar) -> M:
    """Read the settings of a job from its widgets.

    Raises `ConfigurationError` with the line that the job's command line would have printed.
    """
    options = options_of(model)
    try:
        words = [f"--{option.name}={widgets.get(option.name)}" for option in options]
        return read_settings(model, task_arguments(options, words))
    except ConfigurationError as error:
        msg = f"in the widgets, each named as its option: {error}"
        raise ConfigurationError(msg) from None
