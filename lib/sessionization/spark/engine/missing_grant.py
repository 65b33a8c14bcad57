"""Names the privilege that is missing in Unity Catalog, from the errors of its tables and of its volumes' folders."""

import errno
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.databricks import on_databricks
from sessionization.time_limit import call_within

_REFUSED_STATE = "42501"
_REFUSED_CONDITIONS = ("INSUFFICIENT_PERMISSIONS", "PERMISSION_DENIED")
_REFUSED_TEXT = re.compile(rf"{'|'.join(_REFUSED_CONDITIONS)}|SQLSTATE: {_REFUSED_STATE}")
_PRIVILEGE = r"[A-Z]+(?:[ _][A-Z]+)*"
# Its messages say: User does not have USE SCHEMA on Schema 'games.sessions'. The name may be missing.
_MISSING = re.compile(
    rf"does not have (?P<privileges>{_PRIVILEGE}(?:(?:, | and | or ){_PRIVILEGE})*)"
    r" on (?P<kind>(?i:Catalog|Schema|Database|Table|View|Volume))(?:\s+['`\"](?P<name>[^'\"]+?)['`\"])?"
)
_VOLUME = re.compile(r"/Volumes/([^/]+)/([^/]+)/([^/]+)")
_NEEDED_IN_SCHEMA = "USE SCHEMA, CREATE TABLE, MODIFY, SELECT"
_SOMEBODY = "USER OF THIS JOB"
_USER_WITHIN_S = 30.0


def grant_advice(error: BaseException, catalog: str | None = None, schema: str | None = None) -> str | None:
    """Return the `GRANT` statements for what an error says is missing; None where it is about something else.

    A privilege counts as missing by the error's condition, by SQLSTATE 42501 or by its text, in the error itself or in
    its causes. So does EACCES in `/Volumes`; EPERM says that a volume cannot do something. Where the error names no
    privilege, or does not say of what, the statements are for all that the job needs in the schema.

    Args:
        error: of Spark, of the file system, or one that was raised from one of these.
        catalog: the catalog of the tables, if they are in one.
        schema: its schema.
    """
    for cause in _causes(error):
        if isinstance(cause, OSError) and (volume := _VOLUME.match(str(cause.filename or ""))):
            if cause.errno == errno.EACCES:
                names = [f"`{name}`" for name in volume.groups()]
                return _grant("READ VOLUME, WRITE VOLUME", f"VOLUME {'.'.join(names)}") + (
                    f", who also needs USE CATALOG on {names[0]} and USE SCHEMA on {'.'.join(names[:2])}"
                )
        elif _is_refusal(cause):
            statements = [_statement(match, catalog, schema) for match in _MISSING.finditer(str(cause))]
            named = list(dict.fromkeys(filter(None, statements)))
            if named:
                return "; ".join(named)
            if catalog is not None and schema is not None:
                on_schema = _grant(_NEEDED_IN_SCHEMA, f"SCHEMA `{catalog}`.`{schema}`")
                return f"{_grant('USE CATALOG', f'CATALOG `{catalog}`')}; {on_schema}"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _is_refusal(error: BaseException) -> bool:
    if isinstance(error, PySparkException):
        condition = (error.getCondition() or "").partition(".")[0]
        if condition in _REFUSED_CONDITIONS or error.getSqlState() == _REFUSED_STATE:
            return True
    return _REFUSED_TEXT.search(str(error)) is not None


def _statement(match: re.Match[str], catalog: str | None, schema: str | None) -> str | None:
    kind = match["kind"].upper().replace("DATABASE", "SCHEMA")
    privileges = ", ".join(re.split(", | and | or ", match["privileges"].replace("_", " ")))
    if match["name"]:
        return _grant(privileges, f"{kind} {_quoted(match['name'])}")
    if catalog is None or schema is None:
        return None
    return _grant(privileges, f"CATALOG `{catalog}`" if kind == "CATALOG" else f"SCHEMA `{catalog}`.`{schema}`")


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.replace("`", "").split("."))


def _grant(privileges: str, securable: str) -> str:
    return f"GRANT {privileges} ON {securable} TO `{_current_user()}`"


def _current_user() -> str:
    """The user of the job as Unity Catalog names it: a mail address, or the id of a service principal."""
    if not on_databricks():
        return _SOMEBODY

    def ask() -> str:
        return str(SparkSession.builder.getOrCreate().sql("SELECT current_user()").collect()[0][0])

    try:
        return call_within(_USER_WITHIN_S, ask)
    except Exception:  # noqa: BLE001 - the advice is as good without it
        return _SOMEBODY
