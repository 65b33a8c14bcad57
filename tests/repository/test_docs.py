"""Every link in the documentation leads to an existing file and heading."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_TEXTS = {".py", ".md", ".yml", ".ipynb", ".toml"}
_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    found = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if ":" in path:  # a link to another site
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_broken(page: Path) -> None:
    assert broken_links(page) == []


def test_no_file_installs_the_project_by_name_from_a_package_index() -> None:
    """No package index has this project: readers would run the code of anybody who registered its name."""
    by_name = re.compile(r"install (--?\S+ )*['\"`]?sessionization\b")
    folders = ("lib", "jobs", "docs", "notebooks", "bundles", "tests")
    files = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "databricks.yml"]
    files += [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in _TEXTS]
    found = [str(file) for file in files if by_name.search(file.read_text(encoding="utf-8"))]
    assert found == []
    assert by_name.search("pip install -q " + "'sessionization[kafka]'")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_snippet_moves_a_file_of_a_volume_other_than_with_dbutils(page: Path) -> None:
    """A volume cannot rename; whether it takes a mode and times, as `shutil.move` sets them, is not known."""
    assert re.search(r"os\.rename|shutil\.", page.read_text(encoding="utf-8")) is None


@pytest.mark.parametrize("file", [*PAGES, *NOTEBOOKS], ids=lambda file: str(file.relative_to(ROOT)))
def test_a_query_shows_a_message_also_where_it_is_no_utf8(file: Path) -> None:
    """A cast leaves such bytes in the string, which Spark Connect and pandas cannot read; `decode` fails."""
    assert re.search(r"CAST\(value AS string\)|decode\(value", file.read_text(encoding="utf-8"), re.IGNORECASE) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_is_longer_than_120_characters_unless_it_is_a_row_of_a_table(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    assert [number for number, line in lines if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda picture: picture.name)
def test_a_picture_of_the_pages_is_below_300_kb(picture: Path) -> None:
    assert picture.stat().st_size < 300_000
