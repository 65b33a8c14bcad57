"""Query the tables with SQL, on a laptop: `python jobs/query.py --help`."""

from pydantic import Field

from sessionization.command_line.parser import run_job
from sessionization.say import Say
from sessionization.settings.section import Section
from sessionization.settings.table_location_settings import FolderTables


class QuerySettings(Section):
    """Run one SQL statement over the tables and views of a warehouse folder, and print the rows."""

    tables: FolderTables
    sql: str = Field(description="a SELECT over session_changes, sessions, live_sessions and the others")
    rows: int = Field(100, ge=1, description="print at most so many rows")


def main(settings: QuerySettings, say: Say) -> None:
    from sessionization.spark.engine.session import session_for_uris
    from sessionization_laptop.print_query import print_query

    say("starting Spark, which takes 10 to 20 s")
    with session_for_uris(settings, say):
        print_query(settings.tables.warehouse, settings.sql, settings.rows)


def command() -> None:
    run_job(main, QuerySettings, "query")


if __name__ == "__main__":
    command()
