"""Which options may change when a checkpoint folder is used again, and to which sink a micro-batch is repeated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sessionization import files
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import Checkpoint, read_checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from tests.support.checkpoint_folder import FIXED, RULES, SHORTER, begin_micro_batch, reopened


def test_a_new_folder_becomes_a_checkpoint_that_the_next_start_recognises(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "checkpoints"
    first = reopened(folder)
    assert not first.is_used
    begin_micro_batch(folder, 0, 1_000)
    again = reopened(folder)
    assert again.id == first.id
    assert again.is_used
    assert again.writer_id("archive") == f"sessionization/{first.id}/archive"


def test_a_start_on_a_volume_finishes_what_a_kill_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing replaces a file there in one step, and without its layout a checkpoint is of no use."""
    monkeypatch.setattr(files, "VOLUMES", tmp_path)
    first = reopened(tmp_path)
    log = tmp_path / "archive" / "sources" / "0" / "9.compact"
    log.parent.mkdir(parents=True)
    write = files.write_atomically

    def die_in_the_file_itself(file: Path, text: str) -> None:
        write(file, text if file.name.startswith(".") else text[:5])
        if not file.name.startswith("."):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", die_in_the_file_itself)
        with pytest.raises(KeyboardInterrupt):
            reopened(tmp_path, SHORTER)
        with pytest.raises(KeyboardInterrupt):
            files.replace_verified(log, "v1\nentry")
    with pytest.raises(CheckpointError, match="is not readable"):
        read_checkpoint(tmp_path)
    again = reopened(tmp_path)
    assert (again.id, log.read_text()) == (first.id, "v1\nentry")
    assert list(tmp_path.rglob(".*")) == []


@pytest.mark.parametrize(
    ("changed", "option", "value"),
    [
        ({"source": "kafka"}, "--source", "kafka"),
        ({"input": "/other"}, "--input", "/other"),
        ({"tables": "main.games"}, "--warehouse", "main.games"),
        ({"device_groups": 8}, "--device-groups", "8"),
        ({"max_clock_skew_ms": 0}, "--max-clock-skew", "0s"),
        ({"max_event_age_ms": 3_600_000}, "--max-event-age", "1h"),
        ({"mode": "real-time"}, "--mode", "real-time"),
    ],
)
def test_a_changed_pinned_option_is_refused_with_its_name_and_value(
    tmp_path: Path, changed: dict, option: str, value: str
) -> None:
    reopened(tmp_path)
    with pytest.raises(CheckpointError, match=f"{option}.* not {value}: give the same again"):
        reopened(tmp_path, fixed=replace(FIXED, **changed))
    reopened(tmp_path)


def test_changed_rules_apply_only_after_the_newest_started_micro_batch(tmp_path: Path) -> None:
    reopened(tmp_path, SHORTER)
    assert reopened(tmp_path).in_force.at(0) == RULES, "there is none yet"
    begin_micro_batch(tmp_path, 9, 4_000)
    begin_micro_batch(tmp_path, 10, 5_000)
    in_force = reopened(tmp_path, SHORTER).in_force
    assert [in_force.at(clock_ms) for clock_ms in (4_000, 5_000, 5_001)] == [RULES, RULES, SHORTER]


def test_rules_changed_twice_leave_the_first_rules_to_the_micro_batch_that_started_with_them(tmp_path: Path) -> None:
    reopened(tmp_path)
    begin_micro_batch(tmp_path, 0, 5_000)
    reopened(tmp_path, SHORTER)
    in_force = reopened(tmp_path, replace(RULES, heartbeat_ms=1)).in_force
    assert in_force.at(5_000) == RULES
    assert in_force.at(5_001).heartbeat_ms == 1
    in_force = reopened(tmp_path, replace(RULES, heartbeat_ms=1)).in_force
    assert in_force.at(5_000) == RULES


def test_a_folder_of_other_queries_is_refused(tmp_path: Path) -> None:
    begin_micro_batch(tmp_path, 0, 1)
    with pytest.raises(CheckpointError, match=r"no layout\.json"):
        reopened(tmp_path)


def test_nothing_of_a_refused_start_is_kept(tmp_path: Path) -> None:
    reopened(tmp_path)
    before = json.loads((tmp_path / "layout.json").read_text())
    with pytest.raises(CheckpointError):
        reopened(tmp_path, SHORTER, replace(FIXED, device_groups=8))
    assert json.loads((tmp_path / "layout.json").read_text()) == before


def test_a_checkpoint_older_than_its_tables_is_refused(tmp_path: Path) -> None:
    checkpoint = reopened(tmp_path)
    begin_micro_batch(tmp_path, 4, 1)
    checkpoint.refuse_if_older_than({})
    checkpoint.refuse_if_older_than({"sessionize": 4})
    with pytest.raises(CheckpointError, match="sessionize up to micro-batch 4, but the tables hold micro-batch 5"):
        checkpoint.refuse_if_older_than({"sessionize": 5})
    with pytest.raises(CheckpointError, match="archive up to micro-batch -1"):
        checkpoint.refuse_if_older_than({"archive": 0})


def test_temporary_files_of_an_interrupted_first_offset_entry_are_deleted(tmp_path: Path) -> None:
    """With them Spark would never start the query: it takes them for micro-batches of another query."""
    reopened(tmp_path)
    offsets = tmp_path / "rollup" / "offsets"
    offsets.mkdir(parents=True)
    temporary = {".0.5a6d.tmp", "..0.5a6d.tmp.crc"}
    for name in (*temporary, "foreign"):
        (offsets / name).touch()
    assert not reopened(tmp_path).is_used
    assert {path.name for path in offsets.iterdir()} == {"foreign"}
    (offsets / "0").write_text('v1\n{"batchTimestampMs":1}\n-\n')
    (offsets / ".1.5a6d.tmp").touch()
    reopened(tmp_path)
    assert (offsets / ".1.5a6d.tmp").exists(), "Spark ignores it beside a complete entry"


def test_only_a_new_checkpoint_becomes_warm_and_it_stays_warm_once_saved(tmp_path: Path) -> None:
    assert not open_checkpoint(tmp_path / "old", FIXED, RULES).is_warm
    begin_micro_batch(tmp_path / "old", 0, 1_000)
    assert not open_checkpoint(tmp_path / "old", FIXED, RULES, warm=True).is_warm
    for _ in range(2):
        new = open_checkpoint(tmp_path / "new", FIXED, RULES, warm=True)
        assert new.is_warm
    # The warm start was refused. The next start omits the option and begins empty.
    assert not open_checkpoint(tmp_path / "new", FIXED, RULES).is_warm
    new.write()
    assert open_checkpoint(tmp_path / "new", FIXED, RULES).is_warm
    begin_micro_batch(tmp_path / "new", 0, 1_000)
    assert open_checkpoint(tmp_path / "new", FIXED, RULES).is_warm


def test_the_folder_of_a_refused_start_may_still_become_warm(tmp_path: Path) -> None:
    """For example: after the checkpoint was lost, a supervisor restarted the job without the option."""
    refused = open_checkpoint(tmp_path, FIXED, RULES)
    warm = open_checkpoint(tmp_path, FIXED, RULES, warm=True)
    assert warm.is_warm
    assert warm.created_ms >= refused.created_ms
    warm.write()
    assert read_checkpoint(tmp_path) == warm


def test_reading_a_checkpoint_returns_what_opening_returned_and_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no layout\.json"):
        read_checkpoint(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    opened = reopened(tmp_path)
    begin_micro_batch(tmp_path, 0, 1_000)
    opened = reopened(tmp_path, SHORTER)
    assert read_checkpoint(tmp_path) == opened


def test_the_first_micro_batch_fixes_the_number_of_state_partitions(tmp_path: Path) -> None:
    assert reopened(tmp_path).state_partitions() is None
    begin_micro_batch(tmp_path, 0, 1_000)
    assert reopened(tmp_path).state_partitions() is None  # Spark did not store it
    offsets = tmp_path / "sessionize" / "offsets"
    (offsets / "1").write_text('v1\n{"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"64"}}\n-\n')
    assert reopened(tmp_path).state_partitions() == 64


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
