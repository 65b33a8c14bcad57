"""The number of entries in the state of device groups."""

from sessionization.spark.output.state_entries import GroupEntryCounts


def test_entries_are_the_sum_of_each_groups_newest_count() -> None:
    entries = GroupEntryCounts(1_000)
    assert entries.after(0, [("0", 5)]) is None
    assert entries.after(1_000, [("1", 7)]) is None
    assert entries.after(1_001, []) == 12
    assert entries.after(2_000, [("0", 0)]) == 7
