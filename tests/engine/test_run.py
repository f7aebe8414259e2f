"""The parts of a search's run: what is refused, and in which order cards get cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import UsageError
from advisor.engine.question import resolve
from advisor.engine.run import _disturbed, _priorities, _slug, refuse_what_cannot_work
from advisor.engine.space.resolved import resolve_parts
from tests.builders import evaluation
from tests.engine.plans import planned


def test_a_time_limit_below_the_cheapest_candidate_is_refused() -> None:
    request = resolve({"candidates": ["inception_v3_299"], "time_limit": "0.01s"})
    with pytest.raises(UsageError, match="--time-limit 0.01s is too short"):
        refuse_what_cannot_work(resolve_parts(request, lambda _: None))


def test_the_cheapest_card_gets_cores_first() -> None:
    names = ["inception_v3_299", "mobilenet_v1_0.25_224", "mobilenet_v2_1.0_224"]
    plan = planned(
        load_catalogue().select(names), ("float32",), (1,), ("head",), "runtime", images=1000, validation=200
    )
    order = _priorities(plan)
    assert sorted(order, key=lambda name: order[name]) == [
        "mobilenet_v1_0.25_224", "mobilenet_v2_1.0_224", "inception_v3_299",
    ]  # fmt: skip


def test_a_machine_was_busy_where_most_timings_say_so() -> None:
    quiet, busy = evaluation(), replace(evaluation(threads=2), contended=True)
    assert not _disturbed([quiet, busy])
    assert _disturbed([quiet, busy, replace(evaluation(threads=4), contended=True)])
    assert not _disturbed([quiet, replace(busy, latency=None), replace(busy, latency=None)])


def test_a_run_is_named_for_its_images_and_its_budget(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    assert _slug(resolve({"data": str(tmp_path / "photos"), "budget": "50ms"})) == "photos-50ms"
    assert _slug(resolve({})) == "image-classification"
