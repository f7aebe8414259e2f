"""Open the storage of a run's Optuna study: a journal or SQLite in the run folder, or PostgreSQL.

``--storage`` names it; it is checked before anything is spent. Many searches may share a database:
each run has its own study there. A resumed run finds its trials by the name of the study, so the
names stay.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import (
    AdvisorError,
    StudyFile,
    UsageError,
    first_line,
    install_extra,
    without_password,
)
from advisor.store import RunFolder

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

CONNECT_S = 5
"""Seconds until a connection attempt fails."""

TABLES_TRIES = 5
"""Attempts to make the tables: another search may make them at the same time."""

STUDY = "advisor"
"""Name of the study in a run's own file."""


def check_storage(storage: str) -> None:
    """Check that the database can be used, and make its tables if there are none.
    Files need no check.
    """
    if storage not in tuple(StudyFile):
        _close(_database(storage))


@contextlib.contextmanager
def open_storage(storage: str, run: RunFolder) -> Iterator[tuple[BaseStorage, str]]:
    """Open the storage of a run's study; yield it with the study's name."""
    if storage == StudyFile.JOURNAL:
        yield open_journal(run.place(run.study_file.name)), STUDY
        return
    stored = STUDY if storage == StudyFile.SQLITE else run.read_json("study.json").get("study")
    name = stored if isinstance(stored, str) else ""
    if not name:  # folders on two machines may have the same name
        name = f"{run.path.name}-{uuid.uuid4().hex[:8]}"
        run.write_json("study.json", {"study": name})
    address = f"sqlite:///{run.place('study.sqlite')}" if storage == StudyFile.SQLITE else storage
    database = _database(address)
    try:
        yield database, name
    finally:
        _close(database)


def open_journal(file: Path) -> BaseStorage:
    """Open a journal, also one that a killed process left.

    An incomplete last line is removed: the next line would be appended to it, and both would be
    damaged. The lock of the killed process is removed too; the run folder has a lock that ends
    with its process. A journal that cannot be read is renamed, and the study is made again from
    the run's evaluations.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    Path(f"{file}.lock").unlink(missing_ok=True)
    if file.is_file():
        os.truncate(file, file.read_bytes().rfind(b"\n") + 1)
    try:
        return JournalStorage(JournalFileBackend(str(file)))
    except Exception:  # Optuna states no errors of its own for a damaged journal
        damaged = file.with_name(f"{file.name}.damaged")
        number = 2
        while damaged.exists():
            damaged = file.with_name(f"{file.name}.damaged-{number}")
            number += 1
        file.replace(damaged)
        return JournalStorage(JournalFileBackend(str(file)))


@contextlib.contextmanager
def explain_lost_connection(storage: str, run: Path) -> Iterator[None]:
    """Turn a lost connection during a search into an error that says what to do;
    evaluations are in the run folder.
    """
    try:
        yield
    except Exception as error:
        from optuna.exceptions import StorageInternalError

        # A search with a journal does not import SQLAlchemy.
        database = sys.modules.get("sqlalchemy.exc")
        if not isinstance(
            error, (StorageInternalError, *([database.SQLAlchemyError] if database else []))
        ):
            raise
        raise AdvisorError(
            f"the study can no longer be written to {without_password(storage)}: {_reason(error)}",
            "finished evaluations are kept; to continue: advisor search --resume"
            f" {shlex.quote(str(run))}",
        ) from None


def _database(address: str) -> BaseStorage:
    """Connect, and try again if another search makes the tables at the same time."""
    from optuna.storages import RDBStorage
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError

    attempt = 0
    while True:
        try:
            url, options = make_url(address), dict[str, object]()
            # An address that is no file of a run is one of PostgreSQL: the option takes no other.
            if url.get_backend_name() != StudyFile.SQLITE:
                url = url.set(drivername="postgresql+psycopg")
                options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": CONNECT_S}}
            return RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
        except ImportError:
            why = "--storage: PostgreSQL needs a driver that is not installed (psycopg)"
            raise UsageError(why, install_extra("postgres")) from None
        except (SQLAlchemyError, OSError, RuntimeError) as error:
            attempt += 1
            if not isinstance(error, IntegrityError | ProgrammingError) or attempt == TABLES_TRIES:
                raise UsageError(
                    f"--storage: {without_password(address)} cannot be used: {_reason(error)}",
                    "check host, port, user and database; a password is also taken from PGPASSWORD"
                    " or ~/.pgpass",
                ) from None
            time.sleep(0.2 * attempt)


def _reason(error: Exception) -> str:
    """Return the first line of the driver's message, without the statement and its values."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    return first_line(without_password(str(cause))) or type(cause).__name__


def _close(storage: BaseStorage) -> None:
    storage.remove_session()
    engine = getattr(getattr(storage, "_backend", storage), "engine", None)
    if engine is not None:
        engine.dispose()
