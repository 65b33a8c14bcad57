"""The kind of the section `source` that reads Delta tables."""

from typing import Literal

from pydantic import Field

from sessionization.settings.section import Section


class TableSource(Section):
    """Messages in the Delta tables that the streams of the event map name."""

    type: Literal["table"] = Field("table", description="where device events come from")
    starting_offsets: Literal["earliest", "latest"] = Field(
        "earliest", description="as for kafka: earliest is all rows that the tables have now, then each new one"
    )
    max_bytes_per_trigger: int = Field(
        10_000_000,
        ge=1,
        description="table: how many bytes of data files a micro-batch of the sessionize query takes at most, and one "
        "file at least",
    )
    archive: Literal["on", "off"] = Field(
        "on", description="table: off stores no messages in raw_events, because the tables themselves keep them"
    )
    accept_data_loss: bool = Field(
        default=False, description="as for kafka: go on where rows were changed or deleted before they were read"
    )
