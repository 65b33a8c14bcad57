"""The maps of products understand a sample of each: examples after the product's documentation, and simulated ones."""

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
import yaml

from sessionization.message_limits import SKIPPED
from tests.sample.without_spark import preflight
from tests.support.event_maps import PACKAGE
from tests.support.samples import MESSAGES, PRODUCTS, sample_of
from tests.support.wire import read
from tests.support.wire_cases import INGESTED_MS


def test_each_product_has_examples() -> None:
    assert set(PRODUCTS) == PACKAGE.keys() - {"default", "playstation"}


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_sample_of_a_product_is_understood(product: str, tmp_path: Path) -> None:
    sample = sample_of(product, tmp_path)
    stream, content = sample.parent.name, yaml.safe_load(PACKAGE[product])
    found = [read(stream, line, INGESTED_MS, content, has_activity=True) for line in sample.read_bytes().splitlines()]
    reasons = Counter(SKIPPED if one is None else one for one in found if not isinstance(one, tuple))
    skipped = reasons.pop(SKIPPED)
    lines = preflight(tmp_path, "--events", product, "--sample", str(sample)).stdout.splitlines()
    assert lines[0] == (
        f"{MESSAGES} messages: {MESSAGES - skipped - reasons.total()} events, {skipped} skipped, "
        f"{reasons.total()} would go to quarantine"
    )
    counted = {line.split(":")[0] for line in lines}
    assert {f"{reason} {count}" for reason, count in reasons.items()} <= counted
    assert not [line for line in lines if line.startswith("fields that were never")]
    absent = [line.partition(": ")[2].split(", ") for line in lines if line.startswith("kinds that were never")]
    assert set(chain(*absent)) <= set(content["kinds"]["activity"]), "the sample need not have every sign of life"
