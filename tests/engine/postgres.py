"""A PostgreSQL server of its own for a test: under a temporary folder, on loopback, as an unprivileged user."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import free_port

PASSWORD = "s3cret-Wort"
PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)


def why_not() -> str:
    """Return why no server can be started here, or nothing."""
    if _program("initdb") is None or _program("pg_ctl") is None:
        return "PostgreSQL is not installed"
    if os.geteuid() == 0 and not _has_user("postgres"):
        return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yields its address with user and password, naming an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="advisor-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data, port = folder / "data", free_port()
        _run(user, "initdb", "-D", data, "-U", "advisor", "-A", "scram-sha-256", f"--pwfile={secret}", "-N")
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
        _run(user, "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://advisor:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _run(user, "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(user: str | None, program: str, *arguments: object) -> None:
    path = _program(program)
    assert path is not None
    with tempfile.TemporaryFile() as said:
        done = subprocess.run([path, *map(str, arguments)], user=user, cwd="/", stdout=said, stderr=said, timeout=120)
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


def _program(name: str) -> str | None:
    inside = [str(place / name) for place in PLACES if (place / name).is_file()]
    return inside[-1] if inside else shutil.which(name)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
