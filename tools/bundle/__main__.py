"""Check a target before a deploy: `databricks bundle validate -t prod -o json | python -m tools.bundle`."""

import json
import sys

from tools.bundle.checks import mistakes
from tools.bundle.target import resolved


def main() -> int:
    """Print the mistakes. Returns 0 without mistakes, 1 with mistakes, 2 without a bundle on stdin."""
    try:
        bundle = json.load(sys.stdin)
        found = list(mistakes(resolved(bundle, bundle)))
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(
            f"stdin is not what `databricks bundle validate -o json` writes: {error!r}; see what it says\n"
        )
        return 2
    for mistake in found:
        sys.stderr.write(f"{mistake}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
