"""Tests can be moved and renamed: what they share lies in modules without tests, most of it in tests/support."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.support.sources import ROOT

LONGEST_REACH = 2

parsed = cache(ast.parse)


def imported_tests(source: str) -> Iterator[str]:
    """The test modules that a text imports, also in functions."""
    for node in ast.walk(parsed(source)):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name for name in names if any(part.startswith("test_") for part in name.split(".")))


def deepest_reach(source: str) -> int:
    """The most private names in a row through which a text reaches, such as 2 in `store._map._handle`."""

    def reach(node: ast.AST) -> int:
        if isinstance(node, ast.Call):
            return reach(node.func)
        if not isinstance(node, ast.Attribute):
            return 0
        return reach(node.value) + (node.attr.startswith("_") and not node.attr.startswith("__"))

    return max((reach(node) for node in ast.walk(parsed(source))), default=0)


TEXTS = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}


def test_no_module_imports_a_module_of_tests() -> None:
    found = {path: names for path, text in TEXTS.items() if (names := list(imported_tests(text)))}
    assert found == {}, "move what they share to tests/support"


def test_no_test_reaches_through_three_private_names() -> None:
    assert [path for path, text in TEXTS.items() if deepest_reach(text) > LONGEST_REACH] == []


def test_an_import_of_a_module_of_tests_and_a_long_reach_are_found() -> None:
    assert list(imported_tests("def f():\n    import tests.job.test_stream\nfrom tests.support import oracle"))
    assert [deepest_reach(line) for line in ("a.b", "a._b()._c.d._e", "a.__dict__._b")] == [0, 3, 1]
