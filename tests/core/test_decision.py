import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings, strategies as st

from advisor.core import CardFacts, Decision, DeviceFigures, Evaluation, Limits, Provenance, Status, TuningFacts
from advisor.core._choosing import Chooser, costs_of, dominates, front
from advisor.core._posterior import Posterior
from advisor.core._preferences import parse_preference
from tests.builders import evaluation, present
from tests.tables import with_cases

decide = Decision.of_evaluations
LIMITS = Limits(latency_ms=50)

Row = tuple[Evaluation, tuple[float, ...]]
"""A candidate with its answers to the images."""

rows = st.lists(st.tuples(st.floats(40, 95), st.floats(0.5, 120), st.floats(1e5, 2e7)), min_size=1, max_size=15)
IMAGES = 60
NO_LIMIT, WIDE = Limits(), Limits(latency_ms=100)
points_of = st.tuples(st.integers(50, 60), st.integers(1, 8), st.integers(1, 8))


@with_cases
def test_accuracy_comes_before_speed_and_the_p90_meets_the_budget(pick: dict[str, Any], other: dict[str, Any]) -> None:
    better, worse = evaluation("better", **pick), evaluation("worse", **other)
    assert decide([better, worse], LIMITS).pick == decide([worse, better], LIMITS).pick == better


def test_among_ties_the_cheaper_one_is_picked_and_the_other_is_named() -> None:
    best, cheap = evaluation("best", accuracy=90.5, latency=40), evaluation("cheap", accuracy=90, latency=10)
    decision = decide([best, cheap], LIMITS)
    assert decision.pick == cheap
    assert decision.ties == (best,)
    assert "4.0x faster" in decision.reason


def test_what_the_images_show_to_be_behind_is_not_picked_whatever_it_saves() -> None:
    best = evaluation("best", accuracy=90, latency=20, size=100e6)
    for gap, picked in ((2.1, True), (2.2, False)):  # the standard error of the difference is 2.16 points
        cheap = evaluation("cheap", accuracy=90 - gap, latency=0.1, size=1e4)
        decision = decide([best, cheap], Limits(latency_ms=22))
        assert (decision.pick == cheap, decision.ties == (best,)) == (picked, picked)
    reason = decide([best, evaluation("cheap", accuracy=87.9, latency=0.1, size=1e4)], Limits(latency_ms=22)).reason
    assert "It gives up 2.1 points, and up to 2.2 points may be noise here" in reason


def test_the_answer_says_why_a_faster_tie_is_not_the_pick() -> None:
    pick, faster = evaluation("pick", accuracy=90, latency=10), evaluation("faster", accuracy=88, latency=8)
    pick = replace(pick, holdout_accuracy=pick.accuracy)
    decision = decide([pick, faster], LIMITS)
    assert decision.pick == pick
    assert decision.why_not_faster.startswith("faster float32 on 1 thread is tied too and 1.2x faster, but")
    assert "2.00 points less accurate, and its time and size together save 0.04 points" in decision.why_not_faster
    assert "hold-out" not in decision.why_not_faster, "it did not run there because of its points"
    assert decide([pick], LIMITS).why_not_faster == ""


def test_the_runner_up_is_another_artefact() -> None:
    one, two = evaluation("one", threads=1, latency=8), evaluation("one", threads=2, latency=5)
    other = evaluation("other", accuracy=70, latency=9)
    assert decide([one, two, other], LIMITS).runner_up == other


def test_published_figures_half_a_point_apart_tie() -> None:
    first = evaluation("first", accuracy=71.8, half_width=None)
    near, far = (evaluation(f"{value}", accuracy=value, half_width=None) for value in (71.3, 70.9))
    assert Posterior([first, near, far]).tied(first, [near, far]) == [True, False]


def test_nothing_that_fits_gives_the_closest_and_the_price_of_each_relaxation() -> None:
    near = evaluation("near", accuracy=70, latency=55, p90=60, size=3e6)
    accurate = evaluation("accurate", accuracy=90, latency=200, p90=220, size=3e6)
    decision = decide([near, accurate], LIMITS)
    assert not decision.feasible
    assert decision.pick == near
    assert [(r.limit, r.current, r.needed) for r in decision.relaxations] == [("latency", "50.0 ms", "60.0 ms")]
    assert "p90 latency 60.0 ms against 50.0 ms" in decision.reason


def test_where_no_limit_alone_helps_the_smallest_loosening_of_several_is_named() -> None:
    both = evaluation("both", latency=100, p90=100, size=9e6)
    alike = evaluation("next", latency=100, p90=100, size=9e6)
    farther = evaluation("farther", latency=300, p90=300, size=9e6)
    (relaxation,) = decide([alike, both, farther], Limits(latency_ms=50, size_bytes=5_000_000)).relaxations
    assert (relaxation.limit, relaxation.needed) == ("latency and size", "100 ms and 9.0 MB")
    assert relaxation.key == both.configuration.key


def test_a_licence_that_is_not_taken_rules_out_and_its_loosening_is_named() -> None:
    free = replace(evaluation("free", accuracy=70, latency=200, p90=220), card_facts=CardFacts(licence="Apache-2.0"))
    bound = replace(evaluation("bound", accuracy=90, latency=20), card_facts=CardFacts(licence="CC-BY-NC-4.0"))
    decision = decide([free, bound], replace(LIMITS, licence=("permissive",)))
    assert not decision.feasible
    assert decision.pick == free
    assert {(r.limit, r.needed, r.key) for r in decision.relaxations} == {
        ("latency", "220 ms", free.configuration.key),
        ("licence", "CC-BY-NC-4.0", bound.configuration.key),
    }


def _elsewhere(card: str, device: str, held: float | None, reason: str = "", **figures: float) -> Evaluation:
    known = {device: DeviceFigures(p90_ms=held, reason=reason)}
    return replace(evaluation(card, **figures), required_figures=known)


def test_a_pick_must_meet_the_budget_on_every_device_that_it_must_run_on() -> None:
    slow_there = _elsewhere("slow-there", "phone", 80.0, accuracy=92)
    unable = _elsewhere("unable", "phone", None, "it takes int8 alone", accuracy=91)
    fits = _elsewhere("fits", "phone", 30.0, accuracy=80)
    wanted = replace(LIMITS, must_run_on=("phone",))
    assert decide([slow_there, unable, fits], LIMITS).pick == slow_there
    assert decide([slow_there, unable, fits], wanted).pick == fits


def test_where_nothing_runs_on_a_device_both_ways_out_are_named() -> None:
    slow_there = _elsewhere("slow-there", "phone", 80.0, accuracy=70)
    unable = _elsewhere("unable", "phone", None, "it takes int8 alone", accuracy=91)
    decision = decide([slow_there, unable], replace(LIMITS, must_run_on=("phone",)))
    assert decision.pick == slow_there
    assert "80.0 ms on phone against 50.0 ms" in decision.reason
    (relaxation,) = decision.relaxations
    assert (relaxation.limit, relaxation.current, relaxation.needed) == ("on phone", "50.0 ms", "80.0 ms")
    (dropped,) = decide([unable], replace(LIMITS, must_run_on=("phone",))).relaxations
    assert (dropped.current, dropped.needed) == ("required", "not required")


def test_a_figure_that_is_missing_does_not_meet_its_limit() -> None:
    assert not decide([replace(evaluation(), drop=None)], Limits(max_drop_points=1.0)).feasible


def test_no_evaluation_at_all_is_an_answer_too() -> None:
    decision = decide([], LIMITS)
    assert (decision.pick, decision.feasible) == (None, False)
    failed = replace(evaluation("failed"), status=Status.FAILED, reason="no such file", accuracy=None)
    skipped = replace(failed, status=Status.SKIPPED, reason="the lighter one failed")
    assert "1 of 3 configurations: no such file" in decide([skipped, failed, skipped], Limits()).reason


def test_a_flip_names_the_other_file_and_not_that_of_the_pick_with_other_threads() -> None:
    pick, small = evaluation("pick", accuracy=92, latency=5, size=9e6), evaluation("small", accuracy=80, size=1e6)
    spread = evaluation("pick", threads=2, accuracy=92, latency=4, p90=30, size=9e6)  # the pick, of a larger p90
    texts = [flip.text for flip in decide([pick, spread, small], LIMITS).flips]
    assert any(text.startswith("the size budget is between 1 and 9 MB: small") for text in texts)
    assert not [text for text in texts if "latency budget" in text]
    busy = evaluation("pick", threads=2, accuracy=92, latency=2, p90=30, size=9e6)
    smaller = evaluation("smaller", accuracy=92, latency=5.1, p90=6, size=8.9e6)
    flips = [flip for flip in decide([pick, busy, smaller], LIMITS).flips if "latency budget" in flip.text]
    assert [flip.condition for flip in flips] == ["the latency budget (p90) is between 6.10 and 30.0 ms"]
    assert present(decide([pick, busy, smaller], Limits(latency_ms=29)).pick).configuration.key == flips[0].key


@given(st.lists(st.tuples(st.floats(1, 45), st.floats(0.5, 9)), min_size=2, max_size=6, unique=True), st.booleans())
def test_the_named_file_is_the_pick_in_the_range_that_changes_it(rows: list[tuple[float, float]], guess: bool) -> None:
    of_time = Provenance.PREDICTED if guess else Provenance.MEASURED
    made = [evaluation(f"at{i}", accuracy=60 + ms + mb, p90=ms, size=1e6 * mb) for i, (ms, mb) in enumerate(rows)]
    candidates = [replace(row, latency=replace(present(row.latency), provenance=of_time)) for row in made]
    for flip in decide(candidates, LIMITS).flips:
        tightened = re.fullmatch(r"the (latency|size) budget.* is between (\S+) and (\S+) (?:ms|MB)", flip.condition)
        name, *ends = tightened.groups() if tightened else ("",)
        for inside in (float(ends[0]), 0.9999 * float(ends[1])) if ends else ():
            limits = Limits(inside) if name == "latency" else replace(LIMITS, size_bytes=1e6 * inside)
            assert present(decide(candidates, limits).pick).configuration.key == flip.key


def test_a_slightly_looser_limit_says_what_it_buys() -> None:
    limits = Limits(latency_ms=35)
    pick = evaluation("pick", accuracy=80, latency=20, p90=22)
    better = evaluation("better", accuracy=92, latency=36, p90=38)
    too_far = evaluation("far", accuracy=99, latency=50, p90=55)
    decision = decide([pick, better, too_far], limits)
    assert decision.pick == pick
    (loosening,) = decision.loosenings
    assert (loosening.limit, loosening.current, loosening.needed) == ("latency", "35.0 ms", "38.0 ms")
    assert loosening.key == better.configuration.key
    assert "+12.0 points, 1.8x slower, about as large" in loosening.text
    assert not decide([pick, better, too_far], Limits(latency_ms=40)).loosenings


@given(rows, st.floats(1, 100), st.floats(2e5, 2e7))
def test_a_feasible_pick_meets_every_limit_and_is_on_the_front_of_its_ties(
    figures: list[tuple[float, float, float]], latency_ms: float, size: float
) -> None:
    limits = Limits(latency_ms=latency_ms, size_bytes=int(size))
    evaluations = [evaluation(f"card_{i}", accuracy=a, latency=m, size=s) for i, (a, m, s) in enumerate(figures)]
    decision = decide(evaluations, limits)
    assert decision.feasible == any(limits.met_by(e) for e in evaluations)
    assert decision.pick is not None
    assert decide(evaluations[::-1], limits).pick == decision.pick
    if decision.feasible:
        assert limits.met_by(decision.pick)
        assert decision.pick in decision.front


def test_what_ran_without_an_accuracy_cannot_be_picked_and_the_answer_says_so() -> None:
    unranked = replace(evaluation(), accuracy=None, drop=None)
    decision = decide([unranked], LIMITS)
    assert decision.pick is None
    assert "--data" in decision.reason
    assert not LIMITS.met_by(unranked)


@st.composite
def scored(draw: st.DrawFn) -> list[Row]:
    """Candidates with their answers on the same images."""
    found = []
    for place in range(draw(st.integers(2, 8))):
        bits = draw(st.integers(0, 2**IMAGES - 1))
        right = tuple(float(bits >> image & 1) for image in range(IMAGES))
        latency, size = draw(st.integers(1, 40)), draw(st.integers(1, 90))
        made = evaluation(f"card{place}", accuracy=100 * sum(right) / IMAGES, latency=latency, size=size * 1e5)
        found.append((made, right))
    return found


def _pick(rows: list[Row], limits: Limits = NO_LIMIT) -> Evaluation:
    answers = {made.configuration: right for made, right in rows}
    return present(decide([made for made, _ in rows], limits, lambda e: answers[e.configuration]).pick)


@settings(max_examples=12)
@given(scored())
def test_neither_order_nor_units_nor_duplicates_change_the_pick(rows: list[Row]) -> None:
    pick = _pick(rows, WIDE)
    assert _pick(rows[::-1], WIDE) == pick
    assert _pick([*rows, *rows], WIDE) == pick
    slower = [(replace(e, latency=replace(e.latency, value=1000 * e.latency.value)), r) for e, r in rows if e.latency]
    assert _pick(slower, Limits(latency_ms=100_000)).configuration == pick.configuration, "the limit is the scale"


def test_one_lone_answer_is_no_proof() -> None:
    cheap = evaluation("cheap", accuracy=95.0, latency=10, size=1e6), (1.0,) * 57 + (0.0,) * 3
    dear = evaluation("dear", accuracy=100 * 58 / IMAGES, latency=200, size=1e6), (1.0,) * 58 + (0.0,) * 2
    assert _pick([cheap, dear]) == cheap[0]
    sure = evaluation("sure", accuracy=100.0, latency=200, size=1e6), (1.0,) * IMAGES
    assert _pick([cheap, sure]) == sure[0]


@settings(max_examples=15)
@given(scored(), st.integers(0, IMAGES - 1), st.floats(0.5, 1), st.floats(0.5, 1))
def test_a_pick_that_improves_stays_the_pick(rows: list[Row], image: int, faster: float, smaller: float) -> None:
    """It is right on one image more, faster and smaller."""
    pick = _pick(rows)
    right = {made.configuration: answers for made, answers in rows}[pick.configuration]
    better = tuple(1.0 if place == image else value for place, value in enumerate(right))
    accuracy, latency, size = map(present, (pick.accuracy, pick.latency, pick.size))
    improved = replace(
        pick,
        accuracy=replace(accuracy, value=100 * sum(better) / len(better)),
        latency=replace(latency, value=faster * latency.value),
        size=replace(size, value=smaller * size.value),
    )
    others = [(made, answers) for made, answers in rows if made.configuration != pick.configuration]
    assert _pick([*others, (improved, better)]) == improved


@given(scored(), st.sampled_from(["balanced", "accuracy", "latency", "accuracy=1,latency=1,size=1"]))
def test_the_pick_is_tied_with_the_best_and_most_frequent_of_resampled_images(rows: list[Row], preference: str) -> None:
    answers = {made.configuration: right for made, right in rows}
    known, feasible = Posterior([made for made, _ in rows], lambda e: answers[e.configuration]), [e for e, _ in rows]
    decision = decide(feasible, WIDE, lambda e: answers[e.configuration], parse_preference(preference))
    pick, (most, *_) = present(decision.pick), decision.chances
    assert most == pick.configuration.key
    assert decision.chances[most] == max(decision.chances.values())
    if preference == "balanced":
        choice = Chooser(known, parse_preference(preference).within(WIDE.by_figure)).choose(feasible)
        ((behind,),), ((noise,),) = known.differences([pick], [choice.best])
        assert behind <= noise + 1e-9 == present(decision.noise_points) + 1e-9
        if choice.unsteady is None:
            assert _sum_by_hand(pick) <= min(map(_sum_by_hand, choice.tied)) + 1e-9


def _sum_by_hand(tied: Evaluation) -> float:
    """Return the percent of wrong answers, with 100 ms and 6 MB as one percent each."""
    accuracy, latency, size = (present(figure).value for figure in (tied.accuracy, tied.latency, tied.size))
    return 100 - accuracy + latency / 100 + size / 6e6


def test_chances_add_up_and_the_most_probable_pick_is_a_clear_winner() -> None:
    best, poor = evaluation("best", accuracy=95, latency=2, size=1e6), evaluation("poor", accuracy=60, latency=30)
    assert decide([best, poor], LIMITS).chances == {best.configuration.key: 1.0}
    close = [evaluation(f"card{i}", accuracy=90 + 0.1 * i, latency=5 + i) for i in range(6)]
    chances = decide(close, LIMITS).chances
    assert 0.98 < sum(chances.values()) < 1.02
    assert len(chances) > 1
    assert chances == decide(close[::-1], LIMITS).chances


def _answers(right: int, wrong_of_best: Sequence[int] = (), images: int = 652) -> tuple[float, ...]:
    """Return answers that are right on the first ``right`` images but for some of them."""
    return tuple(float(place < right and place not in wrong_of_best) for place in range(images))


def _row(card: str, form: str, right: tuple[float, ...], latency: float, size: float) -> Row:
    return evaluation(card, form, accuracy=100 * sum(right) / len(right), latency=latency, size=size), right


def test_three_images_of_652_do_not_buy_a_slower_and_larger_form_of_the_network() -> None:
    float32 = _row("network", "float32", _answers(559), 9.0, 34e6)
    weights = _row("network", "weight_int8", _answers(559), 4.6, 31e6)
    whole = _row("network", "int8", _answers(562, range(40, 46)), 3.2, 9.7e6)
    assert sum(weights[1]) - sum(whole[1]) == 3
    assert _pick([float32, weights, whole]) == whole[0]


def test_a_form_that_clearly_loses_is_not_bought_by_its_speed() -> None:
    float32 = _row("network", "float32", _answers(560), 9.0, 34e6)
    for lost in (20, 100):
        assert _pick([float32, _row("network", "int8", _answers(560 - lost), 3.0, 9e6)]) == float32[0]
    few = _row("network", "float32", _answers(45, images=50), 9.0, 34e6)
    assert _pick([few, _row("network", "int8", _answers(37, images=50), 3.0, 9e6)]) == few[0]


def _trained(row: Row, training: str, shortened: bool | None = None, holdout: float | None = None) -> Row:
    """Return a candidate of another training, which may have been shortened, and its figure on the hold-out."""
    made, right = row
    made = replace(made, configuration=replace(made.configuration, training=training))
    made = replace(made, tuning=None if shortened is None else TuningFacts(shortened))
    judged = evaluation(accuracy=holdout).accuracy if holdout is not None else None
    return replace(made, holdout_accuracy=judged), right


@with_cases
def test_fine_tuning_precedes_a_head_as_accurate_if_not_shortened(lead: int, shortened: bool | None, pick: str) -> None:
    head = _trained(_row("net", "int8", _answers(500), 3.0, 4e6), "head")
    tuned = _trained(_row("net", "int8", _answers(520, range(20 + lead)), 3.0, 4.01e6), "finetune_cached", shortened)
    assert _pick([head, tuned]).configuration.training == pick
    assert _pick([_trained(head, "head", holdout=70), tuned]).configuration.training == "head", "it was judged"


def test_a_shortened_fine_tuning_does_not_become_the_pick_by_its_int8_file_on_a_new_device() -> None:
    """A head of 74.6 % that ran on the hold-out, and int8 of its shortened fine-tuning with 70.9 % that did not."""
    head = _trained(_row("net", "float32", _answers(224, images=300), 9.4, 13e6), "head", holdout=74.5)
    tuned, whole = (
        _trained(_row("net", form, _answers(right, wrong, images=300), latency, size), "finetune_cached", True)
        for form, right, wrong, latency, size in (
            ("float32", 236, range(20), 9.4, 13e6), ("int8", 236, range(23), 5.1, 4e6)
        )
    )  # fmt: skip
    rows = [head, _trained(tuned, "finetune_cached", True, holdout=67.2), whole]
    assert _pick(rows, LIMITS) == head[0]


def test_of_tied_files_one_that_ran_on_the_hold_out_comes_first_and_the_other_is_named() -> None:
    judged = replace(evaluation("judged", accuracy=90, latency=20), holdout_accuracy=evaluation().accuracy)
    cheap, behind = evaluation("cheap", accuracy=90, latency=2), evaluation("behind", accuracy=99, latency=2)
    decision = decide([judged, cheap], LIMITS)
    assert (decision.pick, decision.unjudged) == (judged, cheap)
    assert "cheap float32" in decision.reason
    assert "would be the pick, but it did not run on the hold-out" in decision.reason
    assert decide([judged, cheap], LIMITS, judged_first=False).pick == cheap
    assert decide([judged, behind], LIMITS).pick == behind, "the images show the judged file to be behind"
    finer = evaluation("finer", accuracy=90.5, latency=30, size=9e6)
    (flip,) = decide([judged, finer], LIMITS).flips
    assert flip.condition == "only accuracy matters, also among files that did not run on the hold-out"


def made(rows: list[tuple[int, int, int]]) -> list[Evaluation]:
    return [
        evaluation(f"card_{place}", accuracy=accuracy, latency=latency, size=size)
        for place, (accuracy, latency, size) in enumerate(rows)
    ]


@given(st.lists(points_of, min_size=1, max_size=12))
def test_nothing_dominates_the_front_and_something_on_it_covers_the_rest(rows: list[tuple[int, int, int]]) -> None:
    evaluations = made(rows)
    best = front(evaluations)
    points = [costs_of(e) for e in best]
    for e in evaluations:
        point = costs_of(e)
        assert point is not None
        beaten = any(dominates(other, point) for other in points if other is not None)
        assert beaten != (e in best)


def test_the_front_is_ordered_by_latency_has_all_equal_points_and_nothing_that_failed() -> None:
    rows = made([(80, 5, 5), (80, 5, 5), (70, 1, 5), (75, 3, 5)])
    failed = replace(evaluation("failed", accuracy=99), status=Status.FAILED)
    assert [present(e.latency).value for e in front([failed, *rows])] == [1, 3, 5, 5]
