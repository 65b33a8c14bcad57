"""The advice names the privilege that Unity Catalog misses, and on what."""

import errno
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException

from sessionization.errors import ConfigurationError
from sessionization.spark.engine import missing_grant
from sessionization.spark.engine.missing_grant import grant_advice


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of a workspace, as its engine tells."""
    session = SimpleNamespace(sql=lambda _: SimpleNamespace(collect=lambda: [("job@example.org",)]))
    monkeypatch.setattr(missing_grant, "on_databricks", lambda: True)
    monkeypatch.setattr(missing_grant.SparkSession, "builder", SimpleNamespace(getOrCreate=lambda: session))


def refused(text: str) -> Exception:
    return AnalysisException(f"[INSUFFICIENT_PERMISSIONS] Insufficient privileges:\n{text} SQLSTATE: 42501")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refused("User does not have USE CATALOG on Catalog 'games'."), "USE CATALOG ON CATALOG `games`"),
        (refused("User does not have USE SCHEMA on Schema 'games.live'."), "USE SCHEMA ON SCHEMA `games`.`live`"),
        (refused("User does not have CREATE TABLE on Schema 'games.live'."), "CREATE TABLE ON SCHEMA `games`.`live`"),
        (
            refused("User does not have MODIFY and SELECT on Table 'games.live.job_lease'."),
            "MODIFY, SELECT ON TABLE `games`.`live`.`job_lease`",
        ),
        (
            RuntimeError(
                "com.databricks.sql.managedcatalog.acl.UnauthorizedAccessException: PERMISSION_DENIED: "
                "User does not have READ VOLUME on Volume 'games.live.landing'."
            ),
            "READ VOLUME ON VOLUME `games`.`live`.`landing`",
        ),
        (refused("User does not have USE_CATALOG on Catalog"), "USE CATALOG ON CATALOG `main`"),
        (refused("User does not have SELECT on Table"), "SELECT ON SCHEMA `main`.`evening`"),
    ],
)
def test_the_missing_privilege_is_named(error: Exception, expected: str) -> None:
    assert grant_advice(error, "main", "evening") == f"GRANT {expected} TO `job@example.org`"


def test_what_a_volume_cannot_do_names_no_privilege() -> None:
    assert grant_advice(PermissionError(errno.EPERM, "refused", "/Volumes/games/live/checkpoints/a")) is None


def test_a_volume_that_refuses_is_named() -> None:
    place = "/Volumes/games/live/checkpoints/sessionize/sessionization_preflight"
    error = PermissionError(errno.EACCES, "refused", place)
    assert grant_advice(error) == (
        "GRANT READ VOLUME, WRITE VOLUME ON VOLUME `games`.`live`.`checkpoints` TO `job@example.org`, "
        "who also needs USE CATALOG on `games` and USE SCHEMA on `games`.`live`"
    )


def test_a_refusal_that_names_nothing_lists_all_that_the_job_needs() -> None:
    error = AnalysisException(errorClass=None, message="the principal may not do that. SQLSTATE: 42501")
    assert grant_advice(error, "main", "evening") == (
        "GRANT USE CATALOG ON CATALOG `main` TO `job@example.org`; GRANT USE SCHEMA, CREATE TABLE, MODIFY, SELECT "
        "ON SCHEMA `main`.`evening` TO `job@example.org`"
    )


def test_the_cause_of_an_error_counts() -> None:
    error = ConfigurationError("the lease cannot be taken")
    error.__cause__ = refused("User does not have MODIFY on Table 'a.b.job_lease'.")
    assert grant_advice(error) == "GRANT MODIFY ON TABLE `a`.`b`.`job_lease` TO `job@example.org`"


@pytest.mark.parametrize(
    "make",
    [
        lambda: AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] there is no table"),
        lambda: OSError(errno.EACCES, "refused", "/data/checkpoints"),
        lambda: OSError(errno.ENOSPC, "full", "/Volumes/a/b/c/x"),
        lambda: RuntimeError("it does not have time on Schema 'a.b'"),
    ],
)
def test_another_error_is_none_of_a_privilege(make: Callable[[], Exception]) -> None:
    assert grant_advice(make(), "main", "evening") is None


def test_an_engine_that_does_not_tell_the_user_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(missing_grant.SparkSession, "builder", SimpleNamespace(getOrCreate=is_over.wait))
    monkeypatch.setattr(missing_grant, "_USER_WITHIN_S", 0.2)
    advice = grant_advice(refused("User does not have USE CATALOG on Catalog 'games'."))
    is_over.set()
    assert advice == "GRANT USE CATALOG ON CATALOG `games` TO `USER OF THIS JOB`"
