"""What the job watches beside its queries."""

from pathlib import Path

from sessionization.spark.run import _vanished_streams


def test_a_stream_folder_that_was_there_and_is_gone_is_told(tmp_path: Path) -> None:
    warning = _vanished_streams(tmp_path)
    assert warning() is None
    (tmp_path / "pc_sessions").mkdir()
    assert warning() is None
    (tmp_path / "pc_sessions").rmdir()
    assert "pc_sessions has disappeared" in str(warning())
    (tmp_path / "pc_sessions").mkdir()
    assert warning() is None
