"""A query whose log of files is large starts again with a shorter one; each file is read once all the same."""

import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import HOUR_MS
from sessionization.job import file_log_limit
from sessionization.job.file_log_limit import FileLogLimit
from sessionization.spark import pipeline
from sessionization.spark.checkpoint.file_source_log import committed_files
from sessionization.spark.checkpoint.folder import ARCHIVE
from sessionization.spark.input import source
from sessionization.spark.tables.schemas import RAW_EVENTS
from tests.job.test_stream import Job, message, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

FILES = 6


def test_a_query_forgets_deleted_files_and_reads_each_file_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_FILES_PER_MICRO_BATCH", 1)
    monkeypatch.setattr(pipeline, "LARGE_LOG_BYTES", 0)
    monkeypatch.setattr(file_log_limit, "LARGE_LOG_BYTES", 0)
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
    job, lines = Job(spark, tmp_path), list[str]()
    long_ago_ns = (wall_clock_ms() - 2 * HOUR_MS) * 1_000_000
    for number in range(FILES):
        job.send(message(number, "Start"))
        os.utime(job.input / "pc_sessions" / f"{job.files}.json", ns=(long_ago_ns + number, long_ago_ns + number))

    def names() -> set[str]:
        return {file.path.name for file in committed_files(job.settings.checkpoints / ARCHIVE)}

    try:
        with job.running(ARCHIVE) as queries:
            wait_for(lambda: job.archived() == FILES, "the archive")
            wait_for(lambda: len(names()) == FILES, "the commit")
            for number in range(1, FILES):
                (job.input / "pc_sessions" / f"{number}.json").unlink()
            run_id = queries[ARCHIVE].runId
            FileLogLimit(replace(job.context, say=lines.append), job.pipeline, threading.Event()).check()
            assert queries[ARCHIVE].runId != run_id
            assert "query archive has started again; its log of files has" in lines[0]
            assert len(names()) < FILES
            job.send(message(FILES, "Start"))
            wait_for(lambda: job.archived() == FILES + 1, "a new file")
    finally:
        spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    read = Counter(row["file"].rpartition("/")[2] for row in job.rows(RAW_EVENTS))
    assert read == Counter(f"{number}.json" for number in range(1, FILES + 2))
