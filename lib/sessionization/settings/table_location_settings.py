"""The options for the location of the tables: a folder on a laptop, a schema of Unity Catalog on Databricks."""

from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from sessionization.hadoop_path import AnyPath, parse_location

Location = Annotated[
    AnyPath,
    PlainValidator(parse_location),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "format": "path"}),
]
"""A folder, as a path or as the URI of a storage that Spark knows."""


def check_table_location(warehouse: AnyPath | None, catalog: str | None, schema_name: str | None) -> None:
    """Check that the tables have one location; raises `ValueError` for none, two, or half of one."""
    if (warehouse is None) == (catalog is None):
        msg = "the tables need one location: give --warehouse DIR, or --catalog NAME and --schema NAME"
        raise ValueError(msg)
    if (catalog is None) != (schema_name is None):
        msg = "--catalog and --schema go together: give both, or neither"
        raise ValueError(msg)


class TableLocationSettings(BaseModel):
    """The settings of a job that works on existing tables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    warehouse: Location | None = Field(None, description="folder of the Delta tables; a path or a URI")
    catalog: str | None = Field(None, description="Unity Catalog catalog of the tables, on Databricks")
    schema_name: str | None = Field(None, alias="schema", description="schema of the tables in --catalog")

    @model_validator(mode="after")
    def _check_one_location(self) -> Self:
        check_table_location(self.warehouse, self.catalog, self.schema_name)
        return self
