"""What mkdocs does to the pages: it adds those of build/docs, and leads links out of docs/ to the repository."""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
DOCS, GENERATED = ROOT / "docs", ROOT / "build" / "docs"
_CODE_OR_LINK = re.compile(r"^ *```.*?^ *```|(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"( *)(?:-|\d+\.) ")
_SQL = re.compile(r"lib/sessionization/sql/(?:tables|views|metrics)/(\w+)\.sql")


def on_files(files: Files, config: Any) -> Files:
    for path in (path for path in sorted(GENERATED.rglob("*")) if path.is_file()):
        files.append(File.generated(config, path.relative_to(GENERATED).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    folder = (DOCS / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        return match[0] if path is None else f"{_target(folder, path, config.repo_url)}{anchor}"

    return _CODE_OR_LINK.sub(replaced, _with_blank_lines(markdown))


def _with_blank_lines(markdown: str) -> str:
    """The text with a blank line before each list item that follows one of several paragraphs.

    Without it Python's Markdown, unlike others, takes the item for a part of the last paragraph.
    """
    lines, is_code, has_blank = list[str](), False, dict[int, bool]()
    for line in markdown.split("\n"):
        item = _ITEM.match(line)
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line:
            has_blank = dict.fromkeys(has_blank, True)
        elif not is_code and item:
            indent = len(item[1])
            if has_blank.get(indent) and lines[-1]:
                lines.append("")
            has_blank = {outer: blank for outer, blank in has_blank.items() if outer < indent} | {indent: False}
        elif not is_code and not line.startswith(" ") and lines[-1:] == [""]:
            has_blank = {}
        lines.append(line)
    return "\n".join(lines)


def _target(folder: Path, path: str, repository: str) -> str:
    """Where a link leads in the site. One to a file that does not exist stays, so that mkdocs refuses it."""
    target = (folder / path).resolve()
    if target.is_relative_to(DOCS):
        return f"{path.rstrip('/')}/index.md" if target.is_dir() else path
    in_repository = os.path.relpath(target, ROOT)
    if sql := _SQL.fullmatch(in_repository):
        return f"{os.path.relpath(DOCS / 'columns.md', folder)}#{sql[1]}"
    kind = "tree" if target.is_dir() else "blob"
    return f"{repository}/{kind}/main/{in_repository}" if target.exists() else path
