"""A target as `databricks bundle validate -o json` gives it."""

import json
from typing import Any

from tools.bundle.resolve import resolve
from tools.bundle.sources import ROOT, Sources, read_sources


def given(target: str = "prod", **variables: Any) -> dict[str, Any]:
    """A target with these variables, in the form of `databricks bundle validate -o json`."""
    sources = read_sources(ROOT)
    main = json.loads(json.dumps(sources.main))
    main["targets"][target].setdefault("variables", {}).update(variables)
    resolved = resolve(Sources(ROOT, sources.contents | {"databricks.yml": main}), target)
    return {
        "bundle": {"target": target},
        "resources": resolved.resources,
        "artifacts": resolved.settings.get("artifacts", {}),
    }
