"""The rows of source tables that an erasure concerns. Those tables are others', so their owner deletes the rows."""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.errors import IncompleteWorkError
from sessionization.event_map.field_path import Names, names_of
from sessionization.event_map.model import EventMap
from sessionization.spark.input.source_tables import in_order, read_tables, sql_name
from sessionization.sql_text import quoted_path, quoted_text

MessagesOfAccounts = Callable[[DataFrame], DataFrame]
"""From messages to those of the accounts, with a column `names_account`."""
_MOST_LISTED = 200


def refuse_rows_in_source(spark: SparkSession, events: EventMap, of_accounts: MessagesOfAccounts) -> None:
    """Raises `IncompleteWorkError` where a source table has rows of the accounts, with the statement that deletes them.

    The statement has `ACCOUNT` where the account stands, because a job's output may be kept longer than the account.
    """
    for stream in in_order(events):
        messages = read_tables(spark, events).where(F.col("stream") == stream)
        rows = of_accounts(messages).persist()
        try:
            count, named = rows.count(), rows.where("names_account").count()
            if not count:
                continue
            condition = " OR ".join(_conditions(rows, events, stream, names_none=count > named))
        finally:
            rows.unpersist()
        table = sql_name(events, stream)
        msg = (
            f"nothing is deleted yet: {table}, which has the messages, has {count:,} rows of the accounts, of which "
            f"{named:,} name one: delete them there first (DELETE FROM {table} WHERE {condition}; malformed messages "
            "by hand), and run this again (docs/runbook.md, 'A player's data must go')"
        )
        raise IncompleteWorkError(msg)


def _conditions(rows: DataFrame, events: EventMap, stream: str, *, names_none: bool) -> list[str]:
    """SQL that finds the rows in the table: by the account, and those that name none by device and session."""
    found = [] if events.account_id is None else [f"{_in_table(events, stream, names_of(events.account_id))} = ACCOUNT"]
    if names_none:
        paths = (*events.device_id_of(stream), *events.session_id_of(stream))
        ids = rows.where("NOT names_account").select(
            *(_in_message(path).alias(str(at)) for at, path in enumerate(paths))
        )
        listed = [_tuple([quoted_text(text or "") for text in row]) for row in ids.distinct().head(_MOST_LISTED)]
        found.append(f"{_tuple([_in_table(events, stream, path) for path in paths])} IN ({', '.join(listed)})")
    return found


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)})"


def _in_message(path: Names) -> Column:
    return F.get_json_object(F.col("value").cast("string"), _json_path(path))


def _in_table(events: EventMap, stream: str, path: Names) -> str:
    """SQL for a value of a row as text: of a column, or of a field of the column that holds messages."""
    column = quoted_path(events.value_of(stream) or path)
    if events.value_of(stream) is None:
        return f"CAST({column} AS STRING)"
    return f"get_json_object(CAST({column} AS STRING), {quoted_text(_json_path(path))})"


def _json_path(path: Names) -> str:
    return "$" + "".join(f"['{name}']" for name in path)
