"""A micro-batch that is repeated goes where it went at first, or where its changes are known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import Checkpoint, read_checkpoint
from tests.adapter.test_checkpoint import FIXED, begin_micro_batch, reopened


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
    reopened(tmp_path).with_sink(was)
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
            again.with_sink(now)
        assert reopened(tmp_path).sink == was
    else:
        assert again.with_sink(now).sink == now
        assert reopened(tmp_path).sink == now


def test_a_sink_is_known_before_its_first_micro_batch_and_not_written_where_all_write_to_it(tmp_path: Path) -> None:
    def kept() -> object:
        return json.loads((tmp_path / "layout.json").read_text()).get("sink", "not there")

    reopened(tmp_path).with_sink("tables")
    assert kept() == "not there"
    reopened(tmp_path).with_sink("kafka")
    assert kept() == "kafka"
    reopened(tmp_path)
    assert kept() == "kafka"
    reopened(tmp_path).with_sink("tables")
    assert kept() == "not there"


def test_the_topic_that_holds_changes_stays_until_they_go_to_the_tables_again(tmp_path: Path) -> None:
    def topic(name: str, sink: str) -> Checkpoint:
        return reopened(tmp_path, fixed=replace(FIXED, output_topic=name)).with_sink(sink)

    topic("a", "tables")
    assert "output_topic" not in json.loads((tmp_path / "layout.json").read_text())["fixed"]
    topic("b", "kafka")
    assert topic("b", "kafka").pinned.output_topic == read_checkpoint(tmp_path).pinned.output_topic == "b"
    for sink in ("kafka", "tables"):
        with pytest.raises(CheckpointError, match="was begun with --output-topic b, not c: give the same again"):
            topic("c", sink)
    begin_micro_batch(tmp_path, 0, 1_000)
    with pytest.raises(CheckpointError, match="micro-batch 0 was begun with --sink kafka and is not done"):
        topic("b", "tables")
    finish_micro_batch(tmp_path, 0)
    topic("b", "tables")
    assert topic("c", "kafka").pinned.output_topic == "c"


def test_a_topic_that_nobody_named_is_the_usual_one_and_not_written(tmp_path: Path) -> None:
    """As a version before the option wrote it, and could read it."""
    reopened(tmp_path).with_sink("kafka")
    assert "output_topic" not in json.loads((tmp_path / "layout.json").read_text())["fixed"]
    with pytest.raises(CheckpointError, match="was begun with --output-topic output_sessions, not c"):
        reopened(tmp_path, fixed=replace(FIXED, output_topic="c"))
    assert reopened(tmp_path).sink == "kafka"
