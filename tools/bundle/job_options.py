"""What the bundle adds to the options of the jobs' settings: values, other defaults and notes."""

from dataclasses import dataclass, field

from pydantic import BaseModel

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.job_parameters import parameter_defaults
from sessionization.ml.forecast import ForecastSettings
from sessionization.notebook.trial_stream import TrialSettings
from sessionization.ops.maintenance_settings import (
    EraseSettings,
    InspectSettings,
    LandChangesSettings,
    MaintainSettings,
    RescaleSettings,
)
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization_simulator.simulate_settings import SimulateSettings

LAPTOP_ONLY = "warehouse"
"""The option that the bundle leaves out: on a cluster the tables are in a catalog."""
_TABLES = {
    "catalog": "${resources.schemas.sessions.catalog_name}",
    "schema": "${resources.schemas.sessions.name}",
}


def volume_folder(name: str) -> str:
    """The folder of a volume of the bundle, by references."""
    parts = ("catalog_name", "schema_name", "name")
    return "/Volumes/" + "/".join(f"${{resources.volumes.{name}.{part}}}" for part in parts)


_STREAM_CHECKPOINTS = {"checkpoints": f"{volume_folder('checkpoints')}/sessionize"}


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a job as the bundle passes them.

    Every option gets the variable `JOB_OPTION` with the settings' default. Exceptions: `values` replace the variable,
    and `defaults` replace the variable's default. `notes` are added to the variable's description. The task installs
    the packages of the wheel's `extras`, and `packages` in addition.
    """

    model: type[BaseModel]
    values: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


JOBS = {
    "sessionize": JobOptions(
        SessionizeSettings,
        values=_TABLES | _STREAM_CHECKPOINTS | {"output-topic": "${var.output_topic}"},
        defaults={"input": volume_folder("landing")},
        notes={
            "input": "must be empty with sessionize_source kafka",
            "sink": "with kafka run the job land_changes too",
            "mode": "real-time needs real_time_enabled true and sessionize_trigger 5s or more",
            "mlflow": "on Databricks a path such as /Users/NAME/sessionization",
            "kafka-option": "on Databricks as secret:SCOPE/KEY",
        },
        extras=("metrics",),
    ),
    "simulate": JobOptions(
        SimulateSettings,
        defaults={"output": volume_folder("landing")},
        notes={"output": "must be empty with simulate_sink kafka", "kafka-option": "NAME is of simulate_environment"},
        extras=("kafka",),
    ),
    "land_changes": JobOptions(
        LandChangesSettings,
        values=_TABLES
        | {"checkpoints": f"{volume_folder('checkpoints')}/land_changes", "output-topic": "${var.output_topic}"},
    ),
    "maintain": JobOptions(MaintainSettings, values=_TABLES | _STREAM_CHECKPOINTS, defaults={"input-retention": "7d"}),
    "backfill": JobOptions(BackfillSettings, values=_TABLES | _STREAM_CHECKPOINTS),
    "erase_account": JobOptions(
        EraseSettings,
        values=_TABLES | _STREAM_CHECKPOINTS,
        notes={"account": "give them when the job is run, not here"},
    ),
    "inspect_state": JobOptions(InspectSettings, values=_STREAM_CHECKPOINTS),
    "predict_remaining": JobOptions(ForecastSettings, values=_TABLES, extras=("forecast",)),
    "rescale_state": JobOptions(
        RescaleSettings, values=_STREAM_CHECKPOINTS | {"partitions": "${var.shuffle_partitions}"}
    ),
    "workspace_tests": JobOptions(
        TrialSettings,
        values=_TABLES | {"folder": volume_folder("checkpoints"), "reader": "${var.reader}"},
        packages=("nutter",),
    ),
}
"""The options of each job, by the job's key; `preflight` has those of `sessionize`, with the same values."""


def variable(job: str, option: str) -> str:
    """The name of the bundle's variable for an option."""
    return f"{job}_{option.replace('-', '_')}"


def parameters(job: str) -> dict[str, str]:
    """The parameters of a job: per option a reference to a variable, or a value."""
    options = JOBS[job]
    return {
        option: options.values.get(option, f"${{var.{variable(job, option)}}}")
        for option in parameter_defaults(options.model)
        if option != LAPTOP_ONLY
    }


def reference(option: str) -> str:
    """How a task refers to a parameter of its job; names with a dash are quoted."""
    return f"{{{{job.parameters.{f'`{option}`' if '-' in option else option}}}}}"


JOBS["preflight"] = JobOptions(SessionizeSettings, values=parameters("sessionize"), extras=("metrics",))
