"""A run's study in optuna-dashboard: the real server over the journal that a search leaves."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.evaluation import Evaluation, Status
from tests.engine.plans import planned
from tests.engine.scheduling.test_study import RUNTIME, result, study
from tests.processes import PATIENCE_S, free_port, until


@contextmanager
def dashboard(journal: Path) -> Iterator[str]:
    """Serve a journal; yields the server's address."""
    port = free_port()
    command = [Path(sys.executable).with_name("optuna-dashboard"), "--port", str(port), "--quiet", journal]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def asked(address: str) -> Any:
    """Return what the server answers, once it is there."""
    until(lambda: answers(address))
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_S):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


@pytest.mark.integration
def test_a_study_opens_in_the_dashboard_with_objectives_parameters_and_reasons(tmp_path: Path) -> None:
    plan = planned(load_catalogue().select(["mobilenet_v2_1.0_224"]), ("float32", "int8"), (1,), ("head",), RUNTIME)
    kept = study(tmp_path / "study.journal", plan)
    done, skipped = kept.ask(), kept.ask()
    assert done is not None
    assert skipped is not None
    kept.tell(result(done))
    kept.tell(Evaluation(skipped, Status.SKIPPED, reason="it cannot", stage="compress"))
    with dashboard(tmp_path / "study.journal") as address:
        (summary,) = asked(f"{address}/api/studies")["study_summaries"]
        shown = asked(f"{address}/api/studies/{summary['study_id']}")
    assert summary["directions"] == ["maximize", "minimize", "minimize"]
    assert shown["objective_names"] == ["accuracy", "latency", "size"]
    first, second = shown["trials"]
    assert (first["state"], second["state"]) == ("Complete", "Pruned")
    assert len(first["values"]) == 3
    assert {each["param_external_value"] for each in first["params"]} >= {done.card, done.compression}
    assert {each["key"]: each["value"] for each in second["user_attrs"]}["reason"] == "it cannot"
