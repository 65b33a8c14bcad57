"""Check a target's values before a deploy: `databricks bundle validate -t prod -o json | python -m tools.bundle`."""

import json
import sys

from tools.bundle.given import given_mistakes


def main() -> int:
    """Print the mistakes. Returns 0 without mistakes, 1 with mistakes, 2 without a bundle on stdin."""
    try:
        mistakes = given_mistakes(json.load(sys.stdin))
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(
            f"stdin is not what `databricks bundle validate -o json` writes: {error!r}; see what it says\n"
        )
        return 2
    for mistake in mistakes:
        sys.stderr.write(f"{mistake}\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
