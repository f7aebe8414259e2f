"""Studies in a journal, in SQLite and in a real PostgreSQL; a database at fault is named before anything is spent."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import Catalogue
from advisor.core import AdvisorError, Limits, UsageError
from advisor.engine import Progress, resolve, run_search
from advisor.engine._scheduling.storage import check_storage, explain_lost_connection, open_journal, open_storage
from advisor.engine._scheduling.study import Study
from advisor.store import RunFolder
from tests.builders import RUNTIME, evaluation, must_fail
from tests.engine import postgres
from tests.engine.plans import planned
from tests.makers.searches import SMALLEST, Searched, search
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration

PLAN = planned(Catalogue.load().select([SMALLEST]), ("float32", "int8"), (1,), ("head", "finetune_top"), RUNTIME)


@pytest.fixture(scope="module")
def database(starts_processes: None) -> Iterator[str]:
    """Address of a PostgreSQL that runs for these tests alone."""
    reason = postgres.why_not()
    if reason:
        skip_or_fail(reason)
    with postgres.server() as address:
        yield address


def studied(storage: str, out: Path) -> str:
    """Evaluate a whole study with stated figures, as a search does, and return its name."""
    check_storage(storage)
    run = RunFolder.create(out, "same-name")
    with open_storage(storage, run) as (kept, name):
        study = Study(kept, name, PLAN, Limits(latency_ms=50), "advisor", 0, done=())
        while (configuration := study.ask()) is not None:
            study.tell(replace(evaluation(), configuration=configuration))
    return name


def complete_trials(address: str) -> dict[str, int]:
    import optuna

    url = address.replace("postgresql://", "postgresql+psycopg://")
    return {summary.study_name: summary.n_trials for summary in optuna.get_all_study_summaries(url)}


def holds_password(folder: Path) -> list[Path]:
    secret = postgres.PASSWORD.encode()
    return [path for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]


def test_searches_at_a_time_share_a_fresh_database_without_mixing(database: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        names = list(threads.map(lambda place: studied(database, tmp_path / f"{place}"), range(2)))
    assert len(set(names)) == 2
    found = complete_trials(database)
    assert [found[name] for name in names] == [4, 4]


def test_a_study_keeps_no_password(database: str, warm_cache: Path, without_images: Searched, tmp_path: Path) -> None:
    assert without_images.code == 3, without_images.err
    options = ("--candidates", SMALLEST, "--compressions", "float32", "--threads", "1", "--workers", "1")
    done = search(warm_cache, tmp_path / "runs", *options, "--storage", database)
    assert done.returncode == 0, done.stderr
    run = (tmp_path / "runs" / "latest").resolve()
    assert not (run / "study.journal").exists()
    assert [count for name, count in complete_trials(database).items() if name.startswith(run.name)] == [1]
    assert holds_password(run) == []
    assert postgres.PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "change",
    [
        lambda address: address.replace(postgres.PASSWORD, "wrong-Wort"),
        lambda address: address.replace("/postgres", "/nowhere"),
        lambda address: address.replace("advisor:", "nobody:"),
    ],
)
def test_a_database_that_does_not_let_in_is_a_usage_error_without_the_password(database: str, change: object) -> None:
    assert callable(change)
    caught = must_fail(UsageError, "--storage: postgresql://", check_storage, change(database))
    said = caught.message + caught.hint
    assert postgres.PASSWORD not in said
    assert "wrong-Wort" not in said


@pytest.mark.usefixtures("own_folders")
def test_an_unreachable_database_ends_the_search_before_anything_is_spent(tmp_path: Path) -> None:
    address = "postgresql://me:hidden-word@127.0.0.1:1/db"
    request = resolve({"storage": address, "candidates": [SMALLEST], "out": str(tmp_path / "runs")})
    caught = must_fail(UsageError, "postgresql://me@127.0.0.1:1/db", run_search, request, Progress())
    assert "hidden-word" not in caught.message + caught.hint
    assert not (tmp_path / "runs").exists()


def test_sqlite_lies_in_the_run_folder_and_a_journal_that_cannot_be_read_is_moved_aside(tmp_path: Path) -> None:
    assert studied("sqlite", tmp_path) == "advisor"
    assert ((tmp_path / "latest").resolve() / "study.sqlite").is_file()
    file = tmp_path / "study.journal"
    file.write_text("not a journal\nat all\n")
    open_journal(file)
    assert (tmp_path / "study.journal.damaged").read_text() == "not a journal\nat all\n"


def test_a_torn_line_of_the_journal_is_cut_off(tmp_path: Path) -> None:
    import optuna

    file = tmp_path / "study.journal"
    study = optuna.create_study(storage=open_journal(file), study_name="advisor")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"op_code":4,"worker_id":"abc')
    (tmp_path / "study.journal.lock").symlink_to(file)
    again = optuna.load_study(storage=open_journal(file), study_name="advisor")
    assert len(again.trials) == 2
    again.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    assert len(optuna.load_study(storage=open_journal(file), study_name="advisor").trials) == 3


@pytest.mark.parametrize("name", ["optuna", "sqlalchemy"])
def test_a_lost_connection_says_how_to_continue(tmp_path: Path, name: str) -> None:
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    error = {"optuna": StorageInternalError, "sqlalchemy": SQLAlchemyError}[name]("the server closed the connection")
    address = "postgresql://me:hidden-word@db/studies"
    with pytest.raises(AdvisorError) as caught, explain_lost_connection(address, tmp_path):
        raise error
    assert "can no longer be written to postgresql://me@db/studies: the server closed" in caught.value.message
    assert f"--resume {tmp_path}" in caught.value.hint


def test_an_error_of_the_search_is_no_lost_connection(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), explain_lost_connection("journal", tmp_path):
        raise ZeroDivisionError
