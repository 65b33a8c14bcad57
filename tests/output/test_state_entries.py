"""The number of entries in the state of device groups, and the warning about a large group."""

from sessionization.spark.output.state_entries import LARGE_GROUP, GroupEntryCounts


def test_entries_are_the_sum_of_each_groups_newest_count() -> None:
    entries = GroupEntryCounts(1_000, say=[].append)
    assert entries.after(0, [("0", 5)]) is None
    assert entries.after(1_000, [("1", 7)]) is None
    assert entries.after(1_001, []) == 12
    assert entries.after(2_000, [("0", 0)]) == 7


def test_a_large_group_is_named_once_with_what_to_do() -> None:
    lines: list[str] = []
    entries = GroupEntryCounts(1_000, lines.append)
    entries.after(0, [("3", LARGE_GROUP), ("4", 1)])
    assert lines == []
    entries.after(1, [("3", 1), ("4", LARGE_GROUP + 1)])
    entries.after(2, [("5", 2 * LARGE_GROUP)])
    assert lines == [
        "device group 4 has 40,001 sessions in its state, and each of its timers reads them all: "
        "for more groups begin a new --checkpoints folder with --expected-devices N --from-sessions"
    ]
