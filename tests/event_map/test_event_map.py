"""Event maps: each mistake is one line with its place, and two maps are compared field by field."""

import re
from pathlib import Path
from typing import Any

import pytest

from sessionization.command_line.parser import read_settings
from sessionization.errors import ConfigurationError
from sessionization.event_map.changes import differences, refuse_other_ids
from sessionization.event_map.column_names import taken_names
from sessionization.event_map.field_path import names_of
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, is_default, package_map, read_event_map
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.tables.schemas import BACKFILL, SESSION_PREDICTIONS, TABLES
from tests.support import wire
from tests.support.event_maps import ARCADE, HANDHELD, LOBBY, OFFSETS, map_of

FOLDERS = ("--input=i", "--warehouse=w", "--checkpoints=c")


def without_defaults(events: EventMap) -> dict[str, Any]:
    """The content of a map as a person writes it, for one with an id of one part in each stream."""
    content = events.model_dump(mode="json", exclude_defaults=True)
    for stream in content["streams"].values():
        [stream["device_id"]] = stream["device_id"]
    [content["session_id"]] = content["session_id"]
    return content


def test_the_default_map_is_the_one_of_the_contract() -> None:
    default = package_map(DEFAULT)
    assert without_defaults(default) == wire.DEFAULT | {"version": "1"}
    assert is_default(default)
    assert default.stream_names == ("pc_sessions", "console_sessions")


def test_playstation_is_default_with_the_title_of_the_game() -> None:
    assert package_map("playstation") == package_map(DEFAULT).model_copy(update={"title": "appTitleId"})


def test_a_stream_has_its_own_ids_or_those_of_all_streams() -> None:
    events = map_of(HANDHELD)
    assert events.device_id_of("phones") == (("phone",),)
    assert events.device_id_of("tablets") == (("maker",), ("serial no?",))
    assert (events.session_id_of("phones"), events.session_id_of("tablets")) == ((("sid",),), (("run", "id"),))
    assert not is_default(events)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ('"a.b".c', ("a.b", "c")),
        ('a."b[0]"', ("a", "b[0]")),
        ("a b.ü", ("a b", "ü")),
        ("$a.`b`", ("$a", "`b`")),
    ],
)
def test_a_path_is_names_joined_by_dots(path: str, names: tuple[str, ...]) -> None:
    assert names_of(path) == names
    events = map_of(OFFSETS.replace("device_id: id", f"device_id: '{path}'").replace("event: kind", f"event: '{path}'"))
    assert names_of(events.event) == names


def test_the_same_path_in_other_quotes_is_the_same() -> None:
    quoted, plain = (map_of(OFFSETS.replace("event: kind", f"event: {path}")) for path in ("'\"a\".b'", "a.b"))
    assert quoted == plain


NINE_COLUMNS = ", ".join(f"k{number}: p{number}" for number in range(9))
LINES = {  # what is replaced in the map, by what, and the message
    ("version: 1", "version: 2"): "version '2' is not known: write '1'",
    ("version: 1\n", ""): "version is missing: write it as docs/your-own-events.md shows",
    ("version: 1", "versions: 1"): "versions is not known: there are version, streams, device_id",
    ("version: 1", "version: 1\ntitle: [game]"): "title ['game'] does not fit: ",
    ("version: 1", "version: 1\ntitle: sid.game"): "sid.game is below sid, which has a value itself: correct one of",
    ("version: 1", "version: 1\nkeep: [country]"): "keep ['country'] does not fit: ",
    ("version: 1", "version: 1\nkeep: {}"): "keep {} does not fit: ",
    ("version: 1", "version: 1\nkeep: {country: 'geo.'}"): "keep.country 'geo.' is no path: ",
    ("version: 1", "version: 1\nkeep: {country: KIND}"): "KIND and kind differ in upper and lower case alone: write",
    ("version: 1", "version: 1\nkeep: {Country: geo}"): "keep.Country 'Country' cannot be a column: write at most 63",
    ("version: 1", "version: 1\nkeep: {_country: geo}"): "keep._country '_country' cannot be a column: ",
    ("version: 1", "version: 1\nkeep: {title: geo}"): "keep.title 'title' is a column of the tables or views already",
    ("version: 1", "version: 1\nkeep: {offset: geo}"): "keep.offset 'offset' is a column of the tables or views",
    ("version: 1", "version: 1\nkeep: {rank: geo}"): "keep.rank 'rank' is a column of the tables or views already: ",
    ("version: 1", "version: 1\nkeep: {since_ms: geo}"): "keep.since_ms 'since_ms' is a column of the tables or views",
    ("version: 1", f"version: 1\nkeep: {{{NINE_COLUMNS}}}"): "keep {'k0': 'p0', 'k1': 'p1'",
    ("version: 1", "version: 1\nsession_id_type: uuid"): "session_id_type 'uuid' is not known: write 'integer' or",
    ("version: 1", "version: 1\nversion: 1"): " line 3: version is there twice: write it as",
    ("platform: pc", "platform: pc, table: t"): "streams.games.ingested_at is missing: name the column that says when",
    ("platform: pc", "platform: pc, table: ''"): "streams.games.table '' does not fit: ",
    ("platform: pc", "platform: pc, ingested_at: at"): "streams.games has a column of a table, and no table: name it,",
    ("version: 1", "version: 1\ningested_at: at"): "ingested_at is a column of tables, and no stream has a table",
    (
        "{games: {platform: pc}}",
        "{games: {platform: pc, table: t, ingested_at: at}}\nvalue: avro\nschema_registry: s",
    ): "schema_registry is for messages in topics, and a stream has a table",
    ("platform: pc", "platform: pc, table: t, ingested_at: a..b"): "streams.games.ingested_at 'a..b' is no path: ",
    ("{games: {platform: pc}}", "{a: {platform: pc, table: t}, b: {platform: pc, table: t}}\ningested_at: at"): (
        "streams: t is the table of two of them: a table is one stream"
    ),
    ("platform: pc", "platform: pc, devices: id"): "streams.games devices is not known: there are platform, device_id,",
    ("platform: pc", "device_id: id"): "streams.games.platform is missing: write it as",
    ("platform: pc", "platform: {path: os}"): "streams.games.platform.values is missing",
    ("platform: pc", "platform: {path: os, values: {}}"): "streams.games.platform.values {} does not fit",
    ("platform: pc", "platform: {path: 'os.', values: {a: b}}"): "streams.games.platform.path 'os.' is no path",
    ("platform: pc", "platform: [pc]"): "streams.games.platform has no fields: write them below it",
    ("{games: {platform: pc}}", "[games]"): "streams ['games'] does not fit: ",
    ("{games: {platform: pc}}", "{}"): "streams {} does not fit: ",
    ("{games: {platform: pc}}", "{games: pc}"): "streams.games has no fields: write them below it",
    ("games:", "'a/b':"): "streams.a/b 'a/b' cannot be a topic and a folder: write at most 249 of",
    ("games:", "_games:"): "streams._games '_games' cannot be a topic and a folder: ",
    ("device_id: id\n", ""): "streams.games.device_id is missing: give it there, or as device_id for all streams",
    ("device_id: id", "device_id: []"): "device_id [] is no path: write one, or a list of paths for an id of several",
    ("device_id: id", "device_id: {path: id}"): "device_id {'path': 'id'} is no path: ",
    ("device_id: id", "device_id: [id, a..b]"): "device_id 'a..b' is no path: write names joined by dots, a name with",
    ("device_id: id", "device_id: devices[0].id"): "device_id 'devices[0].id' is no path: ",
    ("session_id: sid", "session_id: [sid, id]"): "session_id of several parts, as in the stream games, needs",
    ("event: kind", "event: ''"): "event '' is no path: ",
    ("event: kind", "event: ' kind'"): "event ' kind' is no path: ",
    ("event: kind", "event: '\"kind'"): "event '\"kind' is no path: ",
    ("event: kind", "event: [kind]"): "event ['kind'] does not fit: ",
    ("event: kind", "event: SID"): "SID and sid differ in upper and lower case alone: write one of them",
    ("event: kind", "event: sid.kind"): "sid.kind is below sid, which has a value itself: correct one of the paths",
    ("kinds: {start: [open], end: [close]}", "kinds: open"): "kinds has no fields: write them below it",
    ("start: [open]", "start: open"): "kinds.start 'open' is no list: write [NAME, NAME]",
    ("start: [open]", "start: []"): "kinds.start [] does not fit: ",
    ("start: [open]", "start: [close]"): "kinds close is in start and in end: leave it in one of them",
    ("start: [open]", "start: [open], activity: [close]"): "kinds close is in end and in activity: leave it in one of",
    (", end: [close]", ""): "kinds.end is missing",
    ("version: 1", "version: 1\nother_events: drop"): "other_events 'drop' is not known: write 'quarantine' or 'skip'",
    ("event_time: {path: at, format: iso8601_basic_offset}", "event_time: at"): "event_time has no fields: write them",
    ("format: iso8601_basic_offset", "format: epoch"): "event_time.format 'epoch' is not known: write 'iso8601', ",
    (", format: iso8601_basic_offset", ""): "event_time.format is missing",
    ("version: 1", "version: 1\nforeground_s: {path: fg, unit: min}"): "foreground_s.unit 'min' is not known: write",
    ("version: 1", "version: 1\naccount_id: a."): "account_id 'a.' is no path: ",
    ("version: 1", "version: 1\nvalue: protobuf"): "value 'protobuf' is not known: write 'avro'",
    ("version: 1", "version: 1\nvalue: avro"): "value: avro and schema_registry (a URL, or a folder of schemas) belong",
    ("version: 1", "version: 1\nschema_registry: s"): "value: avro and schema_registry (a URL, or a folder of schemas)",
    ("version: 1", "version: 1\nvalue: avro\nschema_registry: 'http://a:b@c'"): "schema_registry has a user in its URL",
    (
        "version: 1",
        "version: 1\nvalue: avro\nschema_registry: {url: s, password: x}",
    ): "schema_registry password is a secret: write env:NAME",
    ("version: 1", "version: 1\nvalue: avro\nschema_registry: {user: x}"): "schema_registry.url is missing",
}


@pytest.mark.parametrize(("change", "message"), LINES.items(), ids=[f"{was} -> {now}" for was, now in LINES])
def test_a_mistake_is_one_line_with_the_file_and_the_place(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    file = tmp_path / "my.yml"
    assert change[0] in OFFSETS
    file.write_text(OFFSETS.replace(*change, 1))
    between = "" if message.startswith(" line") else ": "
    with pytest.raises(ConfigurationError, match=f"^--events {file}{between}{re.escape(message)}") as error:
        read_settings(SessionizeSettings, (*FOLDERS, f"--events={file}"))
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": has no fields: write them below it, as docs/your-own-events.md shows"),
        (b"- a", ": has no fields: "),
        (b"streams: {", " line 1: "),
        (b"\xff", " cannot be read (it is not UTF-8): name a file as docs/your-own-events.md shows"),
    ],
)
def test_a_file_that_is_no_map_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "my.yml"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"^--events {file}{re.escape(message)}"):
        read_event_map(str(file))


def test_an_unknown_name_is_told_the_maps_of_the_package() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^--events unreal is no file, .* there are default, gameanalytics, .*, unity$"
    ):
        read_settings(SessionizeSettings, (*FOLDERS, "--events=unreal"))


def test_label_columns_are_title_then_the_kept_ones_and_those_that_were_known_stay_first() -> None:
    events = map_of(f"{OFFSETS}title: game\nkeep: {{country: geo.country, order: 'kind'}}\n")
    assert events.label_paths() == {"title": ("game",), "country": ("geo", "country"), "order": ("kind",)}
    assert events.label_columns() == ("title", "country", "order")
    assert events.label_columns(("build", "country")) == ("build", "country", "title", "order")
    assert map_of(OFFSETS).label_columns(("build",)) == ("build",)
    assert package_map(DEFAULT).label_columns() == ()


def test_no_kept_column_has_the_name_of_a_column_of_a_table() -> None:
    columns = {column.name for table in (*TABLES, BACKFILL, SESSION_PREDICTIONS) for column in table.columns}
    assert {name for name in columns if not name.startswith("_")} <= taken_names()
    assert {"rank", "position", "heartbeat_age_ms", "peak"} <= taken_names()


def test_the_settings_have_the_map_of_the_option_or_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "my.yml").write_text(ARCADE)
    (tmp_path / "settings.yml").write_text(f"events: {tmp_path / 'my.yml'}\n")
    assert read_settings(SessionizeSettings, FOLDERS).event_map == package_map(DEFAULT)
    for given in (f"--events={tmp_path / 'my.yml'}", f"--settings={tmp_path / 'settings.yml'}"):
        settings = read_settings(SessionizeSettings, (*FOLDERS, given))
        assert settings.event_map == map_of(ARCADE)
        assert settings.topics == ("arcade",)


@pytest.mark.parametrize("text", [ARCADE, HANDHELD, LOBBY, OFFSETS])
def test_a_map_is_the_same_after_it_was_stored(text: str) -> None:
    events = map_of(text)
    assert EventMap.model_validate(events.stored()) == events


def test_the_differences_of_two_maps_are_named_by_field() -> None:
    former = map_of(HANDHELD)
    changed = HANDHELD.replace("end: [close]", "end: [close, quit]").replace("iPadOS: tablet", "iPadOS: pad")
    assert differences(map_of(f"{changed}account_id: user\n"), former) == [
        "account_id is user, was not given",
        "kinds.end is [close, quit], was [close]",
        "streams.tablets.platform.values.iPadOS is pad, was tablet",
    ]
    assert differences(former, former) == []


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("device_id: phone", "device_id: id", "streams.phones.device_id was [phone], and is [id]: ids never change"),
        (
            '[maker, "serial no?"]',
            '["serial no?", maker]',
            "streams.tablets.device_id was [maker, serial no?]",
        ),
        ("session_id: run.id", "session_id: run.no", "streams.tablets.session_id was [run.id], and is [run.no]"),
        ("session_id: sid", "session_id: no", "streams.phones.session_id was [sid], and is [no]"),
        ("session_id: sid", "session_id: sid\nsession_id_type: text", "session_id_type was integer, and is text: ids"),
        ("  phones:", "  telephones:", "streams.phones is gone: streams may be added, and none may go"),
        ("  phones:", "  watches: {platform: watch, device_id: id}\n  phones:", None),
        (
            "  phones:",
            "  tables: {platform: pc, device_id: id, table: t, ingested_at: at}\n  phones:",
            "streams.tables is new, and a table",
        ),
        ("platform: mobile, device_id: phone}", "platform: phone, device_id: phone}", None),
        (", session_id: run.id}", ", session_id: run.id}\ndevice_id: any", None),
    ],
)
def test_ids_never_change_and_streams_may_be_added(was: str, now: str, message: str | None) -> None:
    assert was in HANDHELD
    changed = map_of(HANDHELD.replace(was, now, 1))
    if message is None:
        refuse_other_ids(changed, map_of(HANDHELD))
    else:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            refuse_other_ids(changed, map_of(HANDHELD))


def test_a_stream_of_a_table_has_its_own_columns_or_those_of_all() -> None:
    tables = "a: {platform: pc, table: t, ingested_at: own}, b: {platform: pc, table: u, value: p.body}"
    streams = f"{{{tables}, c: {{platform: pc}}}}\ningested_at: landed"
    events = map_of(OFFSETS.replace("{games: {platform: pc}}", streams))
    assert [events.ingested_at_of(stream) for stream in "ab"] == [("own",), ("landed",)]
    assert [events.value_of(stream) for stream in "ab"] == [None, ("p", "body")]
    assert events.stream_without_table() == "c"
    assert EventMap.model_validate(events.stored()) == events


def test_a_source_of_tables_needs_a_table_of_every_stream(tmp_path: Path) -> None:
    places = (f"--warehouse={tmp_path}", f"--checkpoints={tmp_path}", "--source=table")
    with pytest.raises(
        ConfigurationError, match=r"^--source table: streams\.pc_sessions of --events default has no tab"
    ):
        read_settings(SessionizeSettings, places)
    with pytest.raises(ConfigurationError, match=r"^--archive is not for source of the kind files: leave it out"):
        read_settings(SessionizeSettings, (*FOLDERS, "--archive=off"))
    (tmp_path / "my.yml").write_text(OFFSETS.replace("platform: pc", "platform: pc, table: t, ingested_at: at"))
    mapped = (*places, f"--events={tmp_path}/my.yml")
    assert read_settings(SessionizeSettings, mapped).archives
    assert not read_settings(SessionizeSettings, (*mapped, "--archive=off")).archives
    with pytest.raises(ConfigurationError, match=r"^--archive 'no' is not known: write 'on' or 'off'"):
        read_settings(SessionizeSettings, (*mapped, "--archive=no"))
