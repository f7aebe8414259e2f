from __future__ import annotations

import json

from advisor.core.evaluation import Evaluation, Status
from tests.builders import configuration, evaluation


def test_an_evaluation_survives_json() -> None:
    original = evaluation(accuracy=81.25)
    assert Evaluation.from_json(json.loads(json.dumps(original.to_json()))) == original


def test_a_failed_evaluation_survives_json_with_its_reason() -> None:
    failed = Evaluation(configuration(), Status.FAILED, reason="crashed with SIGSEGV", stage="convert")
    assert Evaluation.from_json(failed.to_json()) == failed


def test_the_key_tells_configurations_apart() -> None:
    keys = {configuration(compression=c, threads=t).key for c in ("int8", "float32") for t in (1, 2)}
    assert len(keys) == 4
