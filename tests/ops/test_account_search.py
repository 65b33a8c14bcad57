"""An erasure finds a message of an account in every spelling of it, and no message of another account."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.ops import erase as ops

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 1, tzinfo=UTC)
DIGITS, JOSE, SMILE = "123456", "José", "a😀/b"
NAMED = {
    DIGITS: [
        b'{"psnAccountId":123456}', b'{"psnAccountId" : 123456.0 }', b'{"psnAccountId":1.23456E5}',
        b'{"psnAccount\\u0049d":123456}', b'{"psnAccountId":7,"psnAccountId":123456}', b'{"psnAccountId":123456',
        b'{"psnAccountId:123456}', b"{'psnAccountId':'123456'}", b'{"psnAccountId":"\\u00312345\\u0036",',
        b'\xff{"psnAccountId":123456}', b'{"psnAccountId":123456} junk', b'{"friend":"123456"}', b'ntId":123456,"x":1}',
        b'"{\\"psnAccountId\\":123456}"',
    ],
    JOSE: [
        *(b'{"psnAccountId":"Jos\\u00%s"%s' % (code, end) for code in (b"e9", b"E9") for end in (b"}", b"", b"} x")),
        '{"psnAccountId":"José"}'.encode(), b'\xff{"psnAccountId":"Jos\\u00E9"}', b'{"psnAccountId":"Jos\\u00E9',
        b"{psnAccountId: Jos\\u00E9}", '{"psnAccountId":"José'.encode("latin-1"), b'"{\\"x\\":\\"Jos\\\\u00e9\\"}"',
        b'{"psnAccountId":"\\u004Aos\\u00e9","psnAccountId":null}',
    ],
    SMILE: [b'{"psnAccountId":"a\\uD83d\\uDe00\\/b"}', '{"psnAccountId":"a😀\\u002Fb'.encode()],
}  # fmt: skip
NOT_NAMED = {
    DIGITS: [
        b'{"psnAccountId":1234567}', b'{"psnAccountId":"1234567"}', b'{"psnAccountId":123456.5}',
        b'{"psnAccountId":-123456}',
        b'{"appSessionId":123456}', b'{"appSessionId":123456', b'{"hostPcId":"123456"}', b'{"123456":1}',
        b'{"psnAccountId":"x\\"123456"}', b'{"psnAccountId":1234567', b'{"psnAccountId":"0123456',
        b'{"psnAccountId":"123456.0"}',
    ],
    JOSE: [
        '{"psnAccountId":"Josée"}'.encode(), b'{"psnAccountId":"Jos"}', b'{"psnAccountId":"Jos\\\\u00e9"}',
        b'{"psnAccountId":"Jos\\u00e9\\u00e9', '{"psnAccountId":"Jose\u0301"}'.encode(),
    ],
    SMILE: [b'{"psnAccountId":"a\\uD83d\\uDe01\\/b"}'],
    "Jos": [b'{"psnAccountId":"Jos\\u00e9"}', b'{"psnAccountId":"Jos\\u00e9'],
    "timestamp": [b'{"timestamp":"x","psnAccountId":"bob"}', b'{"timestamp":"x","psnAccountId":"bob'],
}  # fmt: skip


def test_an_account_is_found_in_every_spelling_and_no_other_account_is(spark: SparkSession) -> None:
    values = [
        (account, "pc_sessions", AT, value, AT.date())
        for cases in (NAMED, NOT_NAMED)
        for account, messages in cases.items()
        for value in messages
    ]
    schema = "of string, stream string, ingested_at timestamp, value binary, ingest_date date"
    rows = spark.createDataFrame(values, schema).cache()
    no_sessions = spark.createDataFrame([], "device_id string, session_id bigint")
    found = {
        (account, bytes(row.value))
        for account in NOT_NAMED
        for row in ops._messages(rows.where(rows.of == account), [account], no_sessions, package_map(DEFAULT)).collect()
    }
    assert found == {(account, value) for account, messages in NAMED.items() for value in messages}
