"""Checks whether a picture shows anything."""

import io
import re

from tests.support.headless import SHOWN, Executed


def coloured_pixels(picture: bytes) -> int:
    """Count the pixels that are neither black, white nor grey; a chart without any shows empty axes."""
    from PIL import Image

    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(64).convert("RGB").getcolors(1 << 20) or []
    return sum(count for count, channels in colours if max(channels) - min(channels) > 40)


def assert_shows(executed: Executed, name: str) -> None:
    assert executed.errors() == []
    pictures, tables = executed.pictures(), executed.tables()
    assert (len(pictures), len(tables)) == SHOWN[name]
    for picture in pictures:
        assert coloured_pixels(picture) > 50, "a picture shows axes and nothing in them"
    for table in tables:
        assert re.search(r"<tbody>\s*<tr", table), f"a table has no rows: {table[:200]}"
