"""Forecast how long each live session will go on: `python jobs/predict_remaining.py --help`."""

from sessionization.command_line.parser import parse_settings, run, say_on_stderr
from sessionization.ml import require_mlflow
from sessionization.ml.prediction_settings import PredictSettings

PROG = "predict_remaining"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(PredictSettings, None, PROG)
    require_mlflow()
    from sessionization.ml.prediction_job import predict_remaining
    from sessionization.notebook.length_charts import model_against_baseline

    predict_remaining(settings, say, model_against_baseline)
    return 0


if __name__ == "__main__":
    run(main, PROG)
