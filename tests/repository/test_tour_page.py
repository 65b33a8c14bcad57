"""The tour's page of the site shows what the notebook shows. `make docs-tour` runs the notebook."""

import base64
from pathlib import Path

import pytest

from tools.docs import tour

PICTURE = b"picture"
TABLE = '<table border="1" class="dataframe"><tbody><tr><td>1</td></tr></tbody></table>'
CELLS = [
    {"cell_type": "code", "source": "set_up()", "outputs": [{"name": "stdout", "text": "there are no tables yet"}]},
    {"cell_type": "markdown", "source": "## An evening\n\nIt begins."},
    {
        "cell_type": "code",
        "source": "%sql\nSELECT 1",
        "outputs": [
            {"name": "stderr", "text": "/home/me: a warning"},
            {"data": {"text/html": TABLE, "text/plain": ""}},
        ],
    },
    {
        "cell_type": "code",
        "source": "plot(x)",
        "outputs": [
            {"name": "stdout", "text": "9 messages\n"},
            {"data": {"image/png": base64.b64encode(PICTURE).decode(), "text/plain": "<Figure>"}},
        ],
    },
]


def test_pictures_tables_and_text_are_shown_and_warnings_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "TOUR", tmp_path)
    assert list(tour.blocks(CELLS)) == [
        "## An evening\n\nIt begins.",
        "```sql\nSELECT 1\n```",
        "<table><tbody><tr><td>1</td></tr></tbody></table>",
        "```python\nplot(x)\n```",
        "```text\n9 messages\n```",
        "[![An evening](tour-0.png)](tour-0.png)",
    ]
    assert (tmp_path / "tour-0.png").read_bytes() == PICTURE
