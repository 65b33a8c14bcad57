"""Every link in the documentation leads to a file that is there, and to a heading of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_TEXTS = {".py", ".md", ".yml", ".ipynb", ".toml"}
_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    found = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if ":" in path:  # of another site
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` c\n[good](#a-b-c) [no heading](#a) [no file](other.md) [elsewhere](https://example.org/x)\n"
    )
    assert broken(page) == ["#a", "other.md"]


def test_nothing_is_installed_by_a_name_that_anybody_could_take() -> None:
    """No package index has this project: who takes its name there would be run by its readers."""
    by_name = re.compile(r"install (--?\S+ )*['\"`]?sessionization\b")
    folders = ("lib", "jobs", "docs", "notebooks", "bundles", "tests")
    files = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "databricks.yml"]
    files += [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in _TEXTS]
    found = [str(file) for file in files if by_name.search(file.read_text(encoding="utf-8"))]
    assert found == []
    assert by_name.search("pip install -q " + "'sessionization[kafka]'")
