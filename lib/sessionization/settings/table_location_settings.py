"""The section `tables`: where the tables are, a folder on a laptop, a schema of Unity Catalog on Databricks."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, PlainSerializer, PlainValidator, Tag, WithJsonSchema

from sessionization.hadoop_path import AnyPath, parse_location
from sessionization.settings.section import Section

Location = Annotated[
    AnyPath,
    PlainValidator(parse_location),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "format": "path"}),
]
"""A folder, as a path or as the URI of a storage that Spark knows."""


class FolderTables(Section):
    """Tables in the folders of a warehouse."""

    warehouse: Location = Field(description="folder of the Delta tables; a path or a URI")


class CatalogTables(Section):
    """Tables in a schema of Unity Catalog."""

    catalog: str = Field(description="Unity Catalog catalog of the tables, on Databricks")
    schema_name: str = Field(description="schema of the tables in the catalog")


def _kind(section: Any) -> str | None:
    """Which kind of tables a section describes; None where it describes none."""
    if isinstance(section, Section):
        return "catalog" if isinstance(section, CatalogTables) else "folder"
    if "warehouse" in section:
        return "folder"
    return "catalog" if section.keys() & {"catalog", "schema"} else None


Tables = Annotated[
    Annotated[FolderTables, Tag("folder")] | Annotated[CatalogTables, Tag("catalog")],
    Discriminator(
        _kind,
        custom_error_type="no_location",
        custom_error_message="the tables need one location: give --warehouse PATH, or --catalog NAME and --schema NAME",
    ),
]


class TableLocationSettings(Section):
    """The settings of a job that works on existing tables."""

    tables: Tables


def volume(tables: object, name: str) -> str | None:
    """The folder of a volume in the schema of a raw section `tables`; None for tables in folders."""
    match tables:
        case {"catalog": str(catalog), "schema": str(schema), **others} if "warehouse" not in others:
            return f"/Volumes/{catalog}/{schema}/{name}"
        case CatalogTables():
            return f"/Volumes/{tables.catalog}/{tables.schema_name}/{name}"
        case _:
            return None
