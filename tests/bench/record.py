"""Store results as MLflow runs in this project: `mlflow ui --backend-store-uri sqlite:///.bench/mlflow.db`."""

from dataclasses import asdict
from pathlib import Path

from sessionization.ml.runs import KIND_TAG, RunKind, import_mlflow
from tests.bench.report import Results

_EXPERIMENT = "sessionization-bench"


def record(results: Results, title: str, folder: Path) -> None:
    """Store a parent run and a nested run for every run of a scenario."""
    mlflow = import_mlflow()

    folder.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    if mlflow.get_experiment_by_name(_EXPERIMENT) is None:
        mlflow.create_experiment(_EXPERIMENT, artifact_location=(folder / "artifacts").absolute().as_uri())
    mlflow.set_experiment(_EXPERIMENT)
    tags = {KIND_TAG: RunKind.BENCHMARK.value}
    with mlflow.start_run(description=title):
        for (scenario, side), runs in results.items():
            for result in runs.values():
                with mlflow.start_run(run_name=scenario.name, nested=True, tags=tags) as run:
                    mlflow.log_params(asdict(scenario) | {"side": side})
                    mlflow.log_metrics(result.figures())
                    series = [
                        mlflow.entities.Metric("tick_ms", took_ms, 0, step)
                        for step, took_ms in enumerate(result.ticks_ms)
                    ]
                    mlflow.MlflowClient().log_batch(run.info.run_id, metrics=series)
