"""docs/lakebase.md: the job accepts its settings, and Databricks' model has every field of its synced table."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml
from databricks.sdk.service.postgres import SyncedTableSyncedTableSpec

from sessionization.command_line.parser import read_settings
from sessionization.serving import lakebase
from sessionization.serving.postgres_login import login
from sessionization.serving.serving_settings import ServingSettings
from sessionization.spark.tables.schemas import SESSIONS
from sessionization.spark.tables.statements import read_statement
from tools.bundle.target import ROOT, read_target, resolved

PAGE = (ROOT / "docs/lakebase.md").read_text(encoding="utf-8")
SETTINGS, RESOURCES = (yaml.safe_load(dedent(text)) for text in re.findall(r"```yaml\n(.*?)\n *```", PAGE, re.DOTALL))


def test_the_job_accepts_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "prod.yml"
    file.write_text(yaml.safe_dump(SETTINGS))
    settings = read_settings(ServingSettings, [f"--settings={file}", "--catalog=games", "--schema=prod"])
    assert settings.password == f"call:{lakebase.__name__}:{lakebase.token.__name__}"
    login(settings.postgres, settings.password, None)  # reads both, and does not connect


def test_the_synced_table_copies_sessions_by_its_key() -> None:
    target = read_target("prod")
    [(_, table)] = resolved(RESOURCES, target)["resources"]["postgres_synced_tables"].items()
    schema = target["resources"]["schemas"]["sessions"]
    place = f"{schema['catalog_name']}.{schema['name']}"
    assert table.pop("synced_table_id").startswith(f"{place}.")
    assert table["source_table_full_name"] == f"{place}.{SESSIONS.name}"
    statement = read_statement("tables", SESSIONS.name)
    assert all(f"\n  {column} " in statement for column in table["primary_key_columns"])
    assert known_fields(table) == table
    assert known_fields(table | {"scheduling_polcy": "SNAPSHOT"}) == table
    assert known_fields(table | {"scheduling_policy": "ALWAYS"}) != table


def known_fields(spec: dict[str, Any]) -> dict[str, Any]:
    return SyncedTableSyncedTableSpec.from_dict(spec).as_dict()
