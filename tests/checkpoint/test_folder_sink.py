"""A repeated micro-batch goes to its first sink, or to a sink that recognises its changes."""

from dataclasses import replace
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import Checkpoint, read_checkpoint
from tests.support.checkpoint_folder import FIXED, begin_micro_batch, reopened


def commit_micro_batch(folder: Path, number: int) -> None:
    commits = folder / "sessionize" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(number)).write_text("v1\n{}\n")


@pytest.mark.parametrize(
    ("old_sink", "new_sink", "started", "committed", "refused"),
    [
        ("kafka", "tables", 3, 2, True),
        ("kafka", "tables", 0, -1, True),
        ("kafka", "tables", 3, 3, False),
        ("kafka", "tables", -1, -1, False),
        ("kafka", "kafka", 3, 2, False),
        ("tables", "tables", 3, 2, False),
        ("tables", "kafka", 3, 2, False),  # the table knows it by its number, a landing by its rows
        ("tables", "kafka", 3, 3, False),
    ],
)
def test_a_micro_batch_that_went_to_the_topic_is_not_repeated_into_the_table(
    tmp_path: Path, old_sink: str, new_sink: str, started: int, committed: int, *, refused: bool
) -> None:
    reopened(tmp_path).with_sink(old_sink)
    for number in range(started + 1):
        begin_micro_batch(tmp_path, number, 1_000 + number)
    for number in range(committed + 1):
        commit_micro_batch(tmp_path, number)
    again = reopened(tmp_path)
    assert again.sink == old_sink
    if refused:
        with pytest.raises(
            CheckpointError,
            match=rf"micro-batch {started} was created with --sink kafka .* once more with --sink kafka, stop",
        ):
            again.with_sink(new_sink)
        assert reopened(tmp_path).sink == old_sink
    else:
        assert again.with_sink(new_sink).sink == new_sink
        assert reopened(tmp_path).sink == new_sink


def test_the_sink_is_stored_before_its_first_micro_batch(tmp_path: Path) -> None:
    for sink in ("tables", "kafka", "tables"):
        reopened(tmp_path).with_sink(sink)
        assert read_checkpoint(tmp_path).sink == sink
        assert reopened(tmp_path).sink == sink


def test_the_topic_of_changes_is_fixed_until_changes_go_to_the_tables_again(tmp_path: Path) -> None:
    def topic(name: str, sink: str) -> Checkpoint:
        return reopened(tmp_path, fixed=replace(FIXED, output_topic=name)).with_sink(sink)

    topic("a", "tables")
    topic("b", "kafka")
    assert topic("b", "kafka").pinned.output_topic == read_checkpoint(tmp_path).pinned.output_topic == "b"
    for sink in ("kafka", "tables"):
        with pytest.raises(CheckpointError, match="was created with --output-topic b, not c: give the same again"):
            topic("c", sink)
    begin_micro_batch(tmp_path, 0, 1_000)
    with pytest.raises(CheckpointError, match="micro-batch 0 was created with --sink kafka and is not done"):
        topic("b", "tables")
    commit_micro_batch(tmp_path, 0)
    topic("b", "tables")
    assert topic("c", "kafka").pinned.output_topic == "c"
