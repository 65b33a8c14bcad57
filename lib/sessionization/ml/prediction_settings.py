"""The settings of `jobs/predict_remaining.py`: one field per option, all checked here."""

from typing import Self

from pydantic import Field, model_validator

from sessionization.ml.run_names import AUTO, OFF
from sessionization.settings.table_location_settings import TableLocationSettings


class PredictSettings(TableLocationSettings):
    """Forecast how long each live session will go on, and how sure that is.

    Trains a model on the past sessions, compares it with the plain survival curve on the last day, and registers both
    in MLflow. The better one forecasts; its rows replace the table `session_predictions`. The sessionize job may run.
    """

    days: int = Field(28, ge=1, le=400, description="learn from the sessions that started in this many days")
    score_only: bool = Field(
        default=False, description="forecast with the newest registered version, and train no other one"
    )
    model: str = Field(
        "session_length",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="name of the registered model; with --catalog it is in the schema of the tables",
    )
    mlflow: str = Field(
        AUTO,
        min_length=1,
        description="experiment in MLflow; auto is session_length, on Databricks in the folder of the job's user",
    )

    @model_validator(mode="after")
    def _needs_mlflow(self) -> Self:
        if self.mlflow == OFF:
            msg = "--mlflow off: the model is kept in MLflow, so leave it out or name an experiment"
            raise ValueError(msg)
        return self

    @property
    def registered_name(self) -> str:
        """The name of the model in the registry: of three parts in Unity Catalog."""
        return self.model if self.catalog is None else f"{self.catalog}.{self.schema_name}.{self.model}"
