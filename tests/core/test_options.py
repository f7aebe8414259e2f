"""An option that is added to the table is in the help, in the keywords and in the resolved request."""

import inspect
from dataclasses import replace
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Annotated, Unpack

import pytest
import typer
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from advisor.cli._groups import SearchCommand
from advisor.cli._options import annotations_of, declare_options
from advisor.core import (
    PLAN,
    SEARCH,
    Decision,
    Evaluation,
    ImageAnswers,
    LatencyDistribution,
    Limits,
    Option,
    OptionGroup,
    PlanOptions,
    Provenance,
    Quantity,
    UsageError,
    show_probability,
    takes_options,
    units,
)
from advisor.core._limits import allows
from advisor.core._option import Number, Text, table_of
from advisor.core._quantity import SHARES
from advisor.engine import resolve
from tests.builders import evaluation, must_fail, present
from tests.tables import with_cases
from tests.zones import zone

NORMAL = NormalDist()
SITES = Limits(latency_ms=50.0, min_metrics=(("worst-group", 70.0),))


class MoreOptions(PlanOptions, total=False):
    """The options of a plan, with two more."""

    hue: Annotated[Text, Option(OptionGroup.DEVICES, "NAME", "Colour of the device.", "red", choices=("red", "green"))]
    depth: Annotated[Number, Option(OptionGroup.RUNNING, "N", "Depth of the search in metres.", first=True)]


MORE = table_of(MoreOptions)


def shown(*arguments: str) -> str:
    """Return what a command with the options prints."""
    app = typer.Typer(rich_markup_mode=None)

    @app.command(cls=SearchCommand)
    @declare_options(annotations_of(MORE))
    def ask(**options: object) -> None:
        """Print the options that are given."""
        typer.echo({name: value for name, value in options.items() if value is not None})

    return CliRunner().invoke(app, arguments).output


def test_the_help_the_command_and_the_resolved_request_have_it() -> None:
    assert "Colour of the device. Default: red." in shown("--help-all")
    assert "Depth of the search in metres." in shown("--help-all")
    assert shown("--hue", "green", "--depth", "3") == "{'hue': 'green', 'depth': 3}\n"
    written = resolve({"hue": "green"}, table=MORE).written
    assert (written["hue"], written["depth"]) == ("green", 0)


def test_the_short_help_has_the_options_of_a_search_that_are_needed_first_and_names_the_long_one() -> None:
    text = shown("--help")
    assert all(f"--{name.replace('_', '-')} " in text for name, option in PLAN.items() if option.first)
    assert "--help-all" in text
    assert "--hue" not in text
    assert sum(option.first for option in SEARCH.values()) == 11


def test_a_function_takes_it_documents_it_and_refuses_others() -> None:
    @takes_options(MoreOptions)
    def ask(*, quiet: bool = False, **options: Unpack[MoreOptions]) -> object:
        """Return what is given.

        Args:
            quiet: say nothing.

        Raises:
            ValueError: never.
        """
        return options

    assert ask(hue="green", depth=3) == {"hue": "green", "depth": 3}
    assert inspect.signature(ask).parameters["hue"].annotation == Text
    assert "    hue: Colour of the device. Default: ``red``.\n    depth:" in (ask.__doc__ or "")
    must_fail(TypeError, r"ask\(\) got an unexpected keyword argument 'hu'", ask, hu="green")


def test_its_name_is_parsed_by_its_choices() -> None:
    from advisor.engine._question.options import collect_options

    assert collect_options({"hue": "green"}, MORE).parse_option("hue") == "green"
    must_fail(UsageError, "--hue: unknown 'gren'", collect_options({"hue": "gren"}, MORE).parse_option, "hue")


@with_cases
def test_a_quantity_is_read_in_its_base_unit(read: str, text: str, expected: float) -> None:
    assert getattr(units, read)(text, "--budget") == pytest.approx(expected)


@with_cases
def test_a_figure_beside_its_limit_differs_from_it(figure: str, limit: float, value: float, texts: list[str]) -> None:
    assert list(units.show_against(figure, limit, value)) == texts


@with_cases
def test_what_is_no_quantity_is_refused(read: str, text: str, words: str) -> None:
    refused = must_fail(UsageError, "", getattr(units, read), text, "--of")
    assert words in f"{refused.message}; {refused.hint}"


@pytest.mark.parametrize(("latency", "shown"), [(0.001, "0.001 ms"), (0.0094, "0.0094 ms"), (0.0095, "0.01 ms")])
def test_a_short_latency_is_not_shown_as_nothing(latency: float, shown: str) -> None:
    assert units.show_ms(latency) == shown
    assert 0.99 * latency <= units.round_down(latency) <= latency


@pytest.mark.parametrize(("seconds", "text"), [(42, "42 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert units.show_seconds(seconds) == text
    assert units.parse_seconds(text, "--of") == units.parse_seconds(units.write_seconds(seconds), "--of") == seconds


def test_names_are_joined_and_many_are_counted() -> None:
    assert units.listed(["a", "b"], 2) == "a, b"
    assert units.listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@with_cases
def test_a_time_is_shown_in_the_user_s_zone(rule: str, shown: str) -> None:
    with zone(rule):
        assert units.show_time(datetime(2026, 1, 31, 12, tzinfo=UTC)) == shown


def spread(median: float, deviation: float = 0.2) -> LatencyDistribution:
    return LatencyDistribution.sample(lambda share: median * 2.718281828 ** (deviation * NORMAL.inv_cdf(share)))


def predicted(card: str, median: float, accuracy: float = 80.0) -> Evaluation:
    distribution = spread(median)
    low, high = distribution.at(0.1), distribution.at(0.9)
    latency = Quantity(median, "ms", Provenance.PREDICTED, low, high, 0.8)
    return replace(evaluation(card, accuracy=accuracy), latency=latency, latency_distribution=distribution)


@given(st.floats(0.01, 0.99))
def test_the_chance_of_a_quantile_is_its_share(share: float) -> None:
    chances = spread(40)
    assert chances.below(chances.at(share)) == pytest.approx(share, abs=1e-9)


def test_between_the_kept_shares_the_error_is_small() -> None:
    chances = spread(40)
    for share in (0.02, 0.15, 0.45, 0.85, 0.97):
        exact = 40 * 2.718281828 ** (0.2 * NORMAL.inv_cdf(share))
        assert chances.below(exact) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("damaged", [None, "", [], [1.0] * 3, [-1.0] * len(SHARES), list(range(len(SHARES), 0, -1))])
def test_a_damaged_distribution_is_none(damaged: object) -> None:
    assert LatencyDistribution.read(damaged) is None


@given(st.floats(20, 80), st.floats(0.55, 0.98))
def test_a_prediction_meets_the_limit_where_its_chance_reaches_the_confidence(median: float, confidence: float) -> None:
    found = Limits(latency_ms=50.0, confidence=confidence).with_budget_probability(predicted("one", median))
    chance = spread(median).below(50.0)
    if abs(chance - confidence) > 1e-6:
        assert Limits(latency_ms=50.0).met_by(found) == (chance >= confidence)


def test_another_confidence_picks_another_model_and_the_reason_says_how_sure_it_is() -> None:
    rows = [predicted("likely", 42, accuracy=90), predicted("sure", 20, accuracy=80)]
    for confidence, pick in ((0.7, "likely"), (0.95, "sure")):
        limits = Limits(latency_ms=50.0, confidence=confidence)
        decision = Decision.of_evaluations(list(map(limits.with_budget_probability, rows)), Limits(latency_ms=50.0))
        assert present(decision.pick).configuration.card == pick
    pick = Limits(latency_ms=50.0, confidence=0.9).with_budget_probability(predicted("one", 38))
    reason = Decision.of_evaluations([pick], Limits(latency_ms=50.0)).reason
    assert "predicted 38.0 ms [29.4-49.1]" in reason
    assert "91 % sure to meet 50.0 ms" in reason


def test_a_measured_evaluation_is_left_as_it_is() -> None:
    measured = evaluation("one")
    assert Limits(latency_ms=50.0, confidence=0.9).with_budget_probability(measured) is measured
    assert measured.show_budget_probability(50.0) == ""


@pytest.mark.parametrize(("share", "text"), [(0.9999, "over 99 %"), (0.001, "under 1 %"), (0.97, "97 %")])
def test_no_probability_is_shown_as_certain(share: float, text: str) -> None:
    assert show_probability(share) == text


@with_cases
def test_which_licences_are_taken(wanted: str, taken: list[str | None], refused: list[str | None]) -> None:
    assert all(allows(Limits.parse_licences(wanted), licence) for licence in taken)
    assert not any(allows(Limits.parse_licences(wanted), licence) for licence in refused)


@pytest.mark.parametrize("text", ["free as in beer", "<b>", "MIT;GPL"])
def test_what_is_no_licence_is_refused(text: str) -> None:
    must_fail(UsageError, "--licence", Limits.parse_licences, text)


def with_sites(card: str, accuracy: float, worst: float | None, held: float | None = None) -> Evaluation:
    """Return an evaluation with the top-1 of the worst group, on validation and on the hold-out."""

    def answers(value: float | None) -> ImageAnswers:
        known = Quantity(value or 0.0, "%", Provenance.MEASURED, (value or 0.0) - 8, (value or 0.0) + 8, 0.95, 40)
        return ImageAnswers(metrics={} if value is None else {"worst-group": known})

    found = replace(evaluation(card, accuracy=accuracy), answers=answers(worst))
    return replace(found, holdout_answers=answers(held)) if held is not None else found


def test_a_limit_of_another_metric_decides_what_may_be_picked_and_one_that_is_not_known_is_not_met() -> None:
    decision = Decision.of_evaluations([with_sites("uneven", 90, 60), with_sites("even", 80, 75)], SITES)
    assert present(decision.pick).configuration.card == "even"
    assert "the limit of 70.0 % worst-group top-1 is met with 89 % probability" in decision.reason
    assert decision.loosenings == ()  # 10 points are beyond a quarter of the error that the limit allows
    (looser,) = Decision.of_evaluations([with_sites("uneven", 90, 65), with_sites("even", 80, 75)], SITES).loosenings
    assert (looser.limit, looser.current, looser.needed) == ("worst-group", "70.0 %", "65.0 %")
    decision = Decision.of_evaluations([with_sites("one", 90, None)], SITES)
    assert "its worst-group top-1 is not known (limit 70.0 %)" in decision.reason
    assert SITES.probabilities(with_sites("one", 90, None)) == {}


def test_nothing_that_meets_a_limit_of_a_metric_names_the_figures_of_both_parts() -> None:
    decision = Decision.of_evaluations([with_sites("uneven", 90, 72, 60)], SITES)
    assert not decision.feasible
    assert "worst-group top-1 72.0 % on validation and 60.0 % on the hold-out against 70.0 %" in decision.reason
    assert decision.relaxations[0].text.startswith("worst-group 70.0 % -> 64.0 % admits uneven")
