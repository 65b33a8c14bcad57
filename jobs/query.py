"""Query the tables with SQL, on a laptop: `python jobs/query.py --help`."""

from pydantic import Field

from sessionization.command_line.parser import run_job
from sessionization.say import Say
from sessionization.settings.section import Section
from sessionization.settings.table_location_settings import FolderTables


class QuerySettings(Section):
    """Run SQL over the tables and views of a warehouse folder, and print the rows; without --sql ask for queries."""

    tables: FolderTables
    sql: str | None = Field(None, description="a SELECT over session_changes, sessions, live_sessions and the others")
    rows: int = Field(100, ge=1, description="print at most so many rows")


def main(settings: QuerySettings, say: Say) -> None:
    from sessionization_laptop.query.run_queries import run_queries

    run_queries(settings.tables, settings.sql, settings.rows, say)


def command() -> None:
    run_job(main, QuerySettings, "query")


if __name__ == "__main__":
    command()
