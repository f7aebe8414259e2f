"""Where the Optuna study is kept: a journal or SQLite in the run folder, or a PostgreSQL that many searches share."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.errors import AdvisorError, UsageError, first_line
from advisor.engine.question import JOURNAL, SCHEMES, SQLITE, without_password
from advisor.store import RunFolder
from advisor.store.gc_paused import gc_paused

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

CONNECT_S = 5
TABLES_TRIES = 5
STUDY = "advisor"
"""Name of the study where a run has a file of its own."""


def reach(storage: str) -> None:
    """Open the database and make its tables where they are not there yet; files need no check.

    Raises:
        UsageError: it cannot be reached, or the driver is not installed.
    """
    if storage not in (JOURNAL, SQLITE):
        _close(_database(storage))


@contextlib.contextmanager
def opened(storage: str, run: RunFolder) -> Iterator[tuple[BaseStorage, str]]:
    """Open the run's study storage; yields it with the study's name.

    Raises:
        UsageError: the database cannot be reached.
    """
    if storage == JOURNAL:
        yield journal(run.study_file), STUDY
        return
    name = STUDY if storage == SQLITE else _study_name(run)
    kept = _database(f"sqlite:///{run.path / 'study.sqlite'}" if storage == SQLITE else storage)
    try:
        yield kept, name
    finally:
        _close(kept)


@gc_paused()
def journal(file: Path) -> BaseStorage:
    """Open a journal, in whatever state a killed process left it.

    A line that was torn is taken away, for the next one would be written behind it and damage both; so is the lock of
    a process that is gone (the run itself is held by a lock that dies with its holder). A journal that cannot be read
    is moved aside: the evaluations are in a file of their own, and the study is made again from them.
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    Path(f"{file}.lock").unlink(missing_ok=True)
    _cut_torn_line(file)
    try:
        return JournalStorage(JournalFileBackend(str(file)))
    except Exception:  # Optuna states no errors of its own for a damaged journal
        file.replace(_free_name(file))
        return JournalStorage(JournalFileBackend(str(file)))


@contextlib.contextmanager
def lost_connection(storage: str, run: Path) -> Iterator[None]:
    """Say in words that the database went away during a search.

    Raises:
        AdvisorError: it did; what was evaluated is in the run folder.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        raise AdvisorError(
            f"the study cannot be kept in {without_password(storage)} any more: {_reason(error)}",
            f"what was evaluated is kept; go on with: advisor search --resume {run}",
        ) from None


def _database(address: str) -> BaseStorage:
    """Connect; of several searches that make the tables at a time, the late ones find them made when they try again."""
    from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError

    for attempt in range(TABLES_TRIES):
        try:
            return _connected(address)
        except (IntegrityError, ProgrammingError) as error:
            if attempt == TABLES_TRIES - 1:
                raise _unreachable(address, error) from None
            time.sleep(0.2 * (attempt + 1))
        except ImportError:
            raise UsageError(
                "--storage: PostgreSQL needs a driver that is not installed (psycopg)",
                "pip install 'advisor[postgres]'",
            ) from None
        except (SQLAlchemyError, OSError, RuntimeError) as error:
            raise _unreachable(address, error) from None
    raise AssertionError("the last attempt returns or raises")


def _connected(address: str) -> BaseStorage:
    from optuna.storages import RDBStorage
    from sqlalchemy.engine import make_url

    url = make_url(address)
    options: dict[str, Any] = {}
    if url.get_backend_name() in SCHEMES:
        url = url.set(drivername="postgresql+psycopg")
        options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": CONNECT_S}}
    return RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)


def _unreachable(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"--storage: {without_password(address)} cannot be used: {_reason(error)}",
        "check host, port, user and database; a password is also taken from PGPASSWORD or ~/.pgpass",
    )


def _reason(error: Exception) -> str:
    """Return the driver's own words, a line, without the statement and its values."""
    cause = getattr(error, "orig", None) or error.__cause__ or error
    return first_line(without_password(str(cause))) or type(cause).__name__


def _study_name(run: RunFolder) -> str:
    """Return the run's name with something random: folders on two machines may be called alike."""
    stored = run.read_json("study.json").get("study")
    if isinstance(stored, str) and stored:
        return stored
    name = f"{run.path.name}-{uuid.uuid4().hex[:8]}"
    run.write_json("study.json", {"study": name})
    return name


def _close(storage: BaseStorage) -> None:
    storage.remove_session()
    engine = getattr(getattr(storage, "_backend", storage), "engine", None)
    if engine is not None:
        engine.dispose()


def _cut_torn_line(file: Path) -> None:
    if not file.is_file():
        return
    with file.open("rb+") as content:
        end = content.seek(0, 2)
        while end:
            start = max(0, end - 65536)
            content.seek(start)
            place = content.read(end - start).rfind(b"\n")
            if place >= 0:
                content.truncate(start + place + 1)
                return
            end = start
        content.truncate(0)


def _free_name(file: Path) -> Path:
    names = (file.with_name(f"{file.name}.damaged{suffix}") for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(name for name in names if not name.exists())
