"""A run in MLflow's own store: what was asked, what was found, the files."""

import importlib.util
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from advisor.api import experiment_log
from advisor.core import UsageError
from advisor.integrations import mlflow
from advisor.integrations.mlflow import log_run
from tests.builders import must_fail, present
from tests.processes import PATIENCE_S
from tests.reporting.views import infeasible_view, run_view
from tests.requirements import skip_or_fail


@pytest.fixture(scope="module")
def new_store(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables, which take long to make."""
    if importlib.util.find_spec("mlflow") is None:
        skip_or_fail("MLflow is not installed")
    path = tmp_path_factory.mktemp("mlflow") / "experiments.db"
    mlflow.require_reachable(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(new_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database of MLflow in the current folder."""
    monkeypatch.chdir(tmp_path)
    return f"sqlite:///{shutil.copy(new_store, tmp_path)}"


def client_of(store: str) -> Any:
    import mlflow

    return mlflow.tracking.MlflowClient(store)


def test_question_figures_and_files_are_kept(store: str, tmp_path: Path) -> None:
    view, bundle = run_view(), tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "model.tflite").write_bytes(b"model")
    (tmp_path / "report.md").write_text("the answer")
    identity = log_run(view, tmp_path, store, bundle)
    found, pick = client_of(store).get_run(identity), present(view.decision.pick)
    accuracy = present(pick.accuracy)
    assert found.info.run_name == view.name
    assert found.data.params["pick.card"] == pick.configuration.card
    assert found.data.metrics["pick.top1_percent"] == pytest.approx(accuracy.value)
    assert found.data.metrics["pick.top1_low_percent"] == pytest.approx(accuracy.low)
    assert found.data.metrics["front_size"] == len(view.decision.front)
    assert {each.path for each in client_of(store).list_artifacts(identity)} == {"bundle", "report.md"}
    infeasible = log_run(infeasible_view(), tmp_path, store, None)
    assert client_of(store).get_run(infeasible).data.metrics["feasible"] == 0


@pytest.mark.parametrize("place", ["wandb:project", "mlflow:", "sqlite:///x.db"])
def test_another_place_is_refused_with_an_example(place: str) -> None:
    refused = must_fail(UsageError, "unknown place", experiment_log, place)
    assert "mlflow:sqlite:///experiments.db" in refused.hint


def test_a_store_that_cannot_be_used_names_the_command_that_tries_again(store: str, tmp_path: Path) -> None:
    refused = must_fail(UsageError, "", log_run, run_view(), tmp_path, "nothing://here", None)
    assert f"advisor report {tmp_path} --log-to mlflow:nothing://here" in refused.hint


@pytest.mark.parametrize("answers", [True, False])
def test_an_unusable_place_is_named_before_any_work(store: str, monkeypatch: pytest.MonkeyPatch, answers: bool) -> None:
    # A server that says nothing is given up soon. An address that is refused has as long as a busy machine needs.
    monkeypatch.setattr(mlflow, "ANSWERS_S", PATIENCE_S if answers else 0.4)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = "nothing://here" if answers else f"http://u:secret@127.0.0.1:{silent.getsockname()[1]}"
        words = "unsupported URI" if answers else "'http://127.0.0.1:.*' does not answer within 0 s"
        refused = must_fail(UsageError, f"--log-to: .*{words}", experiment_log, f"mlflow:{address}")
    assert "secret" not in refused.message + refused.hint
    assert experiment_log(f"mlflow:{store}")[1] == store
