"""The data of the page's script."""

from __future__ import annotations

from advisor.reporting.payload import QUANTITIES, facets, payload
from tests.reporting.views import empty_view, run_view


def test_filters_have_at_least_two_values_each() -> None:
    groups = {facet["field"]: [value for value, _ in facet["options"]] for facet in facets(run_view())}

    assert groups["threads"] == ["1", "2"]
    assert groups["compression"] == ["float32", "float16", "dynamic_int8", "weight_int8", "int8"]
    assert "device" not in groups


def test_wide_ranges_are_logarithmic_and_narrow_ones_linear() -> None:
    view = run_view()

    assert payload(view)["log"] == {"latency": True, "size": True}
    assert payload(empty_view())["log"] == {"latency": False, "size": False}


def test_row_points_at_the_origin_of_each_figure() -> None:
    data = payload(run_view(data=False))
    pick = data["rows"][0]

    assert pick["pick"] is True
    origins = {name: data["sources"][pick["q"][place][3]] for place, name in enumerate(QUANTITIES) if pick["q"][place]}
    assert origins["accuracy"] == "published: paper"
    assert origins["latency"] == "measured: this machine"


def test_pick_and_runner_up_are_compared_first() -> None:
    view = run_view()
    data = payload(view)
    runner_up = view.decision.runner_up

    assert runner_up is not None
    first, second = (data["rows"][index] for index in data["compare"])
    assert first["pick"] is True
    assert (second["card"], second["compression"]) == (
        runner_up.configuration.card,
        runner_up.configuration.compression,
    )
