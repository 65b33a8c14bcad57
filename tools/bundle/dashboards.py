"""Checks that the parts of a dashboard's file fit together. The tests with Spark run its queries."""

import json
from collections.abc import Iterator
from typing import Any

from tools.bundle.sources import Finding


def dashboard_findings(file: str, text: str) -> Iterator[Finding]:
    try:
        dashboard = json.loads(text, object_pairs_hook=_dict_of_unique_keys)
    except ValueError as error:
        yield Finding(file, f"is not JSON: {error}")
        return
    names = [dataset["name"] for dataset in dashboard.get("datasets", [])]
    for name in {name for name in names if names.count(name) > 1}:
        yield Finding(file, f"dataset {name} stands there twice")
    used = set()
    for widget in widgets(dashboard):
        fields: set[str] = set()
        for query in (entry["query"] for entry in widget.get("queries", [])):
            used.add(query["datasetName"])
            fields.update(field["name"] for field in query["fields"])
            if query["datasetName"] not in names:
                yield Finding(file, f"widget {widget['name']} asks the unknown dataset {query['datasetName']}")
        for field in sorted(_encoded_fields(widget.get("spec", {}).get("encodings", {})) - fields):
            yield Finding(file, f"widget {widget['name']} shows {field}, which it does not ask for")
    for name in sorted(set(names) - used):
        yield Finding(file, f"dataset {name} is shown nowhere")


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


def _dict_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            msg = f"key {key!r} stands there twice"
            raise ValueError(msg)
    return dict(pairs)
