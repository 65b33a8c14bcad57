"""A micro-batch that is repeated goes where it went at first, or where its changes are known."""

import json
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from tests.adapter.test_checkpoint import begin_micro_batch, reopened


def finish_micro_batch(folder: Path, number: int) -> None:
    commits = folder / "sessionize" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(number)).write_text("v1\n{}\n")


@pytest.mark.parametrize(
    ("was", "now", "begun", "done", "refused"),
    [
        ("kafka", "tables", 3, 2, True),
        ("kafka", "tables", 0, -1, True),
        ("kafka", "tables", 3, 3, False),
        ("kafka", "tables", -1, -1, False),
        ("kafka", "kafka", 3, 2, False),
        ("tables", "tables", 3, 2, False),
        ("tables", "kafka", 3, 2, False),  # what the table has by its number, a landing knows by its rows
        ("tables", "kafka", 3, 3, False),
    ],
)
def test_a_micro_batch_that_went_to_the_topic_is_not_repeated_into_the_table(
    tmp_path: Path, was: str, now: str, begun: int, done: int, *, refused: bool
) -> None:
    reopened(tmp_path).sending_to(was)
    for number in range(begun + 1):
        begin_micro_batch(tmp_path, number, 1_000 + number)
    for number in range(done + 1):
        finish_micro_batch(tmp_path, number)
    again = reopened(tmp_path)
    assert again.sink == was
    if refused:
        with pytest.raises(
            CheckpointError,
            match=rf"micro-batch {begun} was begun with --sink kafka .* once more with --sink kafka, stop",
        ):
            again.sending_to(now)
        assert reopened(tmp_path).sink == was
    else:
        assert again.sending_to(now).sink == now
        assert reopened(tmp_path).sink == now


def test_a_sink_is_known_before_its_first_micro_batch_and_not_written_where_all_write_to_it(tmp_path: Path) -> None:
    def kept() -> object:
        return json.loads((tmp_path / "layout.json").read_text()).get("sink", "not there")

    reopened(tmp_path).sending_to("tables")
    assert kept() == "not there"
    reopened(tmp_path).sending_to("kafka")
    assert kept() == "kafka"
    reopened(tmp_path)
    assert kept() == "kafka"
    reopened(tmp_path).sending_to("tables")
    assert kept() == "not there"
