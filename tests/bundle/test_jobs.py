"""Every job of the bundle starts with the options and widgets that it gives."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.options import options_of, task_arguments
from sessionization.command_line.parser import read_settings
from sessionization.job import sessionize_job
from sessionization.ml.forecast import ForecastSettings
from sessionization.ops.maintenance_settings import (
    EraseSettings,
    InspectSettings,
    LandChangesSettings,
    MaintainSettings,
    RescaleSettings,
)
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization_laptop.laptop_notebook import LaptopWidgets
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.nutter.trial import TrialSettings
from tools.bundle.target import ROOT, TARGETS, read_target

MODELS = {
    "sessionize": SessionizeSettings, "preflight": SessionizeSettings, "land_changes": LandChangesSettings,
    "maintain": MaintainSettings, "backfill": BackfillSettings, "erase_account": EraseSettings,
    "inspect_state": InspectSettings, "rescale_state": RescaleSettings, "simulate": SimulateSettings,
    "predict_remaining": ForecastSettings, "workspace_tests": TrialSettings,
}  # fmt: skip
KAFKA = ("--source=kafka", "--bootstrap-servers=a:9092", "--sink=kafka")
"""land_changes needs them, and the settings of the targets read files."""


def given(target: str, key: str) -> dict[str, str]:
    """The options that a job gives by default, with the settings file in this checkout."""
    job = read_target(target)["resources"]["jobs"][key]
    defaults = {parameter["name"]: parameter["default"] for parameter in job["parameters"]}
    task = job["tasks"][0]
    words = task["spark_python_task"]["parameters"] if "spark_python_task" in task else ()
    fixed = dict(word.removeprefix("--").split("=", 1) for word in words)
    texts = {**fixed, **defaults}
    if "settings" in texts:
        texts["settings"] = texts["settings"].replace(f"/Workspace/{target}/files", str(ROOT))
    return texts


@pytest.mark.parametrize(
    ("target", "key"), [(target, key) for target in TARGETS for key in read_target(target)["resources"]["jobs"]]
)
def test_a_job_is_started_with_settings_that_it_accepts(target: str, key: str) -> None:
    model = MODELS[key]
    texts = given(target, key)
    assert texts.keys() <= {option.name for option in options_of(model)}
    more = KAFKA if key == "land_changes" else ()
    arguments = task_arguments(options_of(model), [f"--{name}={text}" for name, text in texts.items()])
    settings = read_settings(model, [*arguments, *more])
    schema = read_target(target)["resources"]["schemas"]["sessions"]
    if key != "simulate":
        assert (settings.tables.catalog, settings.tables.schema_name) == (schema["catalog_name"], schema["name"])


def test_the_volumes_are_where_the_settings_expect_the_input_and_the_checkpoints() -> None:
    settings = read_settings(
        SessionizeSettings, [f"--{name}={text}" for name, text in given("prod", "sessionize").items() if text]
    )
    volumes = read_target("prod")["resources"]["volumes"]
    folders = {key: "/Volumes/{catalog_name}/{schema_name}/{name}".format(**volume) for key, volume in volumes.items()}
    assert str(settings.input_folder) == folders["landing"]
    assert str(settings.state.checkpoints) == f"{folders['checkpoints']}/sessionize"


def test_the_notebook_starts_the_stream_once_with_the_jobs_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[SessionizeSettings] = []
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    monkeypatch.setattr(sessionize_job, "run_and_print_summary", lambda settings, *_say: calls.append(settings))
    texts = given("dev", "sessionize") | {"job-run-id": "1"}
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=LaptopWidgets(texts)), "display": pytest.fail}
    notebook = json.loads((ROOT / "notebooks/02_sessionize.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    (settings,) = calls
    assert settings.tables.model_dump() == {"catalog": "catalog", "schema_name": "dev_someone_gaming_sessions_dev"}
    assert (settings.run_for_ms, settings.rules.heartbeat_ms) == (4 * 3_600_000, 30_000)
