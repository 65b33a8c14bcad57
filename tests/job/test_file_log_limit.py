"""A query whose log of files is large starts again with a shorter one; each file is read once all the same."""

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.job import queries as job_queries
from sessionization.spark.checkpoint import take_log
from sessionization.spark.checkpoint.file_source_log import log_bytes
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.input import file_taker
from sessionization.spark.tables.schemas import RAW_EVENTS
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

FILES = 6


def test_a_query_forgets_merged_takes_and_reads_each_file_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_log, "_MANY_TAKES", 1)
    monkeypatch.setattr(file_taker, "_MERGE_EVERY_S", 0)
    monkeypatch.setattr(job_queries, "LARGE_LOG_BYTES", 0)
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
    job, lines = Job(spark, tmp_path), list[str]()
    archive = job.settings.state.checkpoints / ARCHIVE
    takes = job.settings.state.checkpoints / TAKES_FOLDER
    try:
        with job.running(SESSIONIZE, ARCHIVE) as queries:
            for number in range(FILES):
                job.send(message(number, "Start"))
                wait_for(lambda number=number: job.archived() == number + 1, "the archive")
            wait_for(lambda: take_log.take_numbers(takes)[0] > 2, "the deletion of merged takes")
            wait_for(lambda: log_bytes(archive) > 0, "a compacted log")
            before, run_id = log_bytes(archive), queries[ARCHIVE].runId
            job.pipeline._context = replace(job.context, say=lines.append)
            job.pipeline.shorten_logs(threading.Event())
            assert queries[ARCHIVE].runId != run_id
            assert any("query archive has started again; its log of files has" in line for line in lines)
            assert log_bytes(archive) < before
            job.send(message(FILES, "Start"))
            wait_for(lambda: job.archived() == FILES + 1, "a new file")
    finally:
        spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    read = Counter(row["file"].rpartition("/")[2] for row in job.rows(RAW_EVENTS))
    assert read == Counter(f"{number}.json" for number in range(1, FILES + 2))
