"""The parts of a dashboard's file, and whether they fit together."""

import json
from collections.abc import Iterator
from typing import Any


def dashboard_findings(text: str) -> Iterator[str]:
    """Find datasets that are missing or not used, and columns that a widget shows and does not ask for."""
    dashboard = json.loads(text)
    names, used = {dataset["name"] for dataset in dashboard["datasets"]}, set()
    for widget in widgets(dashboard):
        fields: set[str] = set()
        for query in (entry["query"] for entry in widget.get("queries", [])):
            used.add(query["datasetName"])
            fields.update(field["name"] for field in query["fields"])
        for field in sorted(_encoded_fields(widget.get("spec", {}).get("encodings", {})) - fields):
            yield f"widget {widget['name']} shows {field}, which it does not ask for"
    for name in sorted(names ^ used):
        yield f"dataset {name} is not there, or shown nowhere"


def widgets(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for page in dashboard.get("pages", []):
        for position in page.get("layout", []):
            yield position["widget"]


def dataset_sql(dataset: dict[str, Any]) -> str:
    return "".join(dataset["queryLines"])


def widget_sql(query: dict[str, Any], sql: str) -> str:
    """The SQL that the dashboard builds for a widget from its dataset's SQL."""
    fields = ", ".join(f"{field['expression']} AS `{field['name']}`" for field in query["fields"])
    return f"SELECT {fields} FROM ({sql}){'' if query['disaggregated'] else ' GROUP BY ALL'}"


def _encoded_fields(encodings: Any) -> set[str]:
    match encodings:
        case dict():
            own = {encodings["fieldName"]} if "fieldName" in encodings else set()
            return own.union(*(_encoded_fields(inner) for inner in encodings.values()))
        case list():
            return set().union(*(_encoded_fields(inner) for inner in encodings))
        case _:
            return set()
