"""The place ``mlflow:ADDRESS`` of ``--log-to``: log a run with MLflow.

The entry point ``advisor.experiment_logs`` names this module. Search and report call
:func:`require_installed` and :func:`require_reachable` before the work, and :func:`log_run` with
the answer: question, figures with intervals, front, report and bundle. Names of parameters and
metrics are read by dashboards of users: they stay.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from advisor.core import UsageError, first_line, install_extra, without_password
from advisor.reporting import REPORT_FILES, make_answer_rows
from advisor.store import ColumnType

if TYPE_CHECKING:
    from advisor.reporting import RunView

EXAMPLE = "mlflow:sqlite:///experiments.db"
EXPERIMENT = "advisor"
ANSWERS_S = 10.0
"""Seconds that a server has for its first answer."""

LONGEST = 500
"""Characters of a parameter; MLflow refuses longer ones on some servers."""


def require_installed() -> None:
    """Check that MLflow is installed; see :class:`advisor.api._answers.ExperimentLog`."""
    if find_spec("mlflow") is None:
        raise UsageError("--log-to: MLflow is not installed", install_extra("mlflow"))


def require_reachable(address: str) -> None:
    """Ask the server or the database for an experiment; see
    :class:`advisor.api._answers.ExperimentLog`.
    """
    failed = [f"'{without_password(address)}' does not answer within {ANSWERS_S:.0f} s"]
    client = _import_mlflow().MlflowClient

    def ask() -> None:
        try:
            client(address).search_experiments(max_results=1)
            failed.clear()
        # A store can fail in any way.
        except Exception as error:
            failed[:] = [_describe_problem(error)]

    # In a thread, as MLflow tries again for minutes.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    # Making the tables of a new database may take long.
    asking.join(None if address.startswith("sqlite:") else ANSWERS_S)
    if failed:
        raise UsageError(
            f"--log-to: {failed[0]}",
            "check it; or leave --log-to out, because advisor report also logs a run later",
        )


def _import_mlflow() -> Any:
    """Return the module, which logs only errors."""
    import mlflow

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    return mlflow


def _describe_problem(error: Exception) -> str:
    return first_line(without_password(str(error))) or type(error).__name__


def log_run(view: RunView, folder: Path, address: str, bundle: Path | None) -> str:
    """Log the answer of a run; see :class:`advisor.api._answers.ExperimentLog`."""
    mlflow = _import_mlflow()
    try:
        mlflow.set_tracking_uri(address)
        mlflow.set_experiment(EXPERIMENT)
        # MLflow prints the address of the entry, with its password
        with redirect_stdout(StringIO()), mlflow.start_run(run_name=view.name) as entry:
            mlflow.log_params(dict(_list_parameters(view)))
            mlflow.log_metrics(dict(_list_metrics(view)))
            mlflow.set_tag("advisor.reason", view.decision.reason)
            for name in REPORT_FILES:
                if (folder / name).is_file():
                    mlflow.log_artifact(str(folder / name))
            if bundle is not None:
                mlflow.log_artifacts(str(bundle), "bundle")
            return str(entry.info.run_id)
    # A store can fail in any way.
    except Exception as error:
        shown = without_password(address)
        command = f"advisor report {shlex.quote(str(folder))} --log-to mlflow:{shown}"
        hint = f"try again: {command}"
        if shown != address:
            hint = f"add the password, and {hint}"
        raise UsageError(f"--log-to: {_describe_problem(error)}", hint) from error


def _list_parameters(view: RunView) -> Iterator[tuple[str, str]]:
    """Yield the question, and what was picked."""
    for name, value in view.request.written.items():
        if value in ("", None, []):
            continue
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield name, text[:LONGEST]
    pick = view.decision.pick
    if pick is not None:
        configuration = pick.configuration
        yield "pick.card", configuration.card
        yield "pick.training", configuration.training
        yield "pick.compression", configuration.compression
        yield "pick.device", configuration.target.device


def _list_metrics(view: RunView) -> Iterator[tuple[str, float]]:
    """Yield the figures of the pick with their intervals, and the sizes of the front."""
    yield "feasible", float(view.decision.feasible)
    yield "front_size", float(len(view.decision.front))
    if view.decision.pick is None:
        return
    for name, value in make_answer_rows().cells((view, view.decision.pick)).items():
        is_figure = ColumnType.of_column(name) == ColumnType.NUMBER or name.endswith("_bytes")
        if value is not None and is_figure:
            yield f"pick.{name}", float(value)
