"""Write the pages that are taken from the code, and what the site loads, to build/docs: `python -m tools.docs`."""

import re
import shutil
from pathlib import Path
from zipfile import ZipFile

from sessionization_laptop.engine.jars import jar_paths
from tools.docs.columns_page import columns_page
from tools.docs.options_page import options_page

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "docs"
API = (
    "sessionization.core.session_rules",
    "sessionization.core.events",
    "sessionization.core.session_state",
    "sessionization.event_map.reading",
    "sessionization.job.sessionize_job",
    "sessionization.ml.forecast",
    "sessionization.notebook.false_ends",
    "sessionization.notebook.notebook_tables",
)
"""The modules that a program beside the jobs imports."""


def api_page() -> str:
    lines = ["# Python API", "", "What notebooks and programs of your own import.", ""]
    for module in API:
        lines += [f"::: {module}", ""]
    return "\n".join(lines)


def decisions_page() -> str:
    """The titles of docs/adr, as a list of links."""
    files = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    titles = [(re.sub(r"^# \d+\. ", "", file.read_text(encoding="utf-8").splitlines()[0]), file) for file in files]
    lines = [f"- {int(file.name[:4])}: [{title}]({file.name})" for title, file in titles]
    return "\n".join(["# Decisions", "", "Why it is as it is, and what was given up for it.", "", *lines, ""])


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    for name, text in (
        ("adr/index.md", decisions_page()),
        ("api.md", api_page()),
        ("columns.md", columns_page()),
        ("options.md", options_page(ROOT / "jobs")),
    ):
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(text, encoding="utf-8")
    [mermaid] = jar_paths("docs")
    (PAGES / "tools").mkdir()
    with ZipFile(mermaid) as jar:
        [script] = [name for name in jar.namelist() if name.endswith("/dist/mermaid.min.js")]
        (PAGES / "tools" / "mermaid.min.js").write_bytes(jar.read(script))
    shutil.copy(Path(__file__).with_name("site.css"), PAGES / "tools")


if __name__ == "__main__":
    main()
