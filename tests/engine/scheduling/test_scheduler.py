"""What a search hands out beside what runs: every configuration once, within the machine's capacity."""

import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import Sampler
from advisor.engine import Execution
from advisor.engine._scheduling.belief import CardTraining, FormStep
from advisor.engine._scheduling.scheduler import COMPLETE
from tests.engine.plans import changed
from tests.engine.scheduling.searches import BEST, OTHER, PLAN, WEAK, Search

TWO_THREADS = changed(PLAN, threads=(1, 2))


@settings(max_examples=4, deadline=None)
@given(
    st.sampled_from([name for name in Sampler if name != Sampler.GP]),
    st.integers(1, 3),
    st.floats(40.0, 99.0),
    st.floats(40.0, 99.0),
)
def test_each_configuration_begins_once_or_is_refused(sampler: str, cores: int, best: float, others: float) -> None:
    def accuracy(network: CardTraining) -> float:
        return best if network.card == BEST else others

    search = Search(TWO_THREADS, accuracy=accuracy, everything=True, sampler=sampler, cores=cores).finish()
    refused = dict(search.scheduler.refused())
    found = [each for some in search.began for each in some]
    assert sorted([*found, *refused]) == sorted(TWO_THREADS.configurations())
    assert all(CardTraining.of(each).tuned and reason for each, reason in refused.items())
    assert search.study.unevaluated == 0


@pytest.mark.parametrize("sampler", [Sampler.ADVISOR, Sampler.RANDOM])
def test_one_card_is_fine_tuned_at_a_time_and_only_after_its_head(sampler: str) -> None:
    search = Search(accuracy=lambda _: 80.0, everything=True, sampler=sampler, cores=3)
    ended = set[FormStep]()
    for _ in search.advance():
        running = {CardTraining.of(each) for some in search.running for each in some if CardTraining.of(each).tuned}
        assert len(running) <= 1
        assert all(FormStep(CardTraining(each.card, "head"), "float32") in ended for each in running)
        ended |= set(map(FormStep.of, search.running[0]))
    assert set(search.tuned) == {BEST, OTHER, WEAK}


@pytest.mark.parametrize(("everything", "expected"), [(True, 2), (False, 1)])
def test_other_machines_fine_tune_as_many_networks_as_where_all_may_run(everything: bool, expected: int) -> None:
    search = Search(accuracy=lambda _: 80.0, everything=everything, cores=4, trainings=2, least=0.001)
    most = 0
    for _ in search.advance():
        tuned = {CardTraining.of(each) for some in search.running for each in some if CardTraining.of(each).tuned}
        most = max(most, len(tuned))
    assert most == expected


@pytest.mark.parametrize(("everything", "most"), [(True, 3), (False, 2)])
def test_no_more_steps_are_begun_than_the_cores_can_use(everything: bool, most: int) -> None:
    search, found = Search(everything=everything, cores=2), set[int]()
    for _ in search.advance():
        found.add(len({FormStep.of(e) for row in search.running for e in row if not CardTraining.of(e).tuned}))
    assert max(found) == most


def test_every_thread_count_of_a_step_begins_with_it() -> None:
    search = Search(TWO_THREADS)
    search.start()
    assert {each.target.threads for each in search.began[0]} == {1, 2}


def test_what_is_not_expected_to_begin_waits_and_with_everything_nothing_does() -> None:
    search = Search(accuracy=lambda network: {BEST: 96.0}.get(network.card, 50.0)).finish()
    planned = set(map(FormStep.of, PLAN.configurations()))
    assert set(map(FormStep.of, search.scheduler.waiting)) == planned - set(search.steps)
    assert not Search(everything=True).finish().scheduler.waiting


def test_a_search_ends_because_a_cpu_hour_more_is_not_expected_to_pay_or_because_all_is_done() -> None:
    search = Search().finish()
    left = search.study.unevaluated
    assert left
    stop = search.scheduler.explain_end(Execution(), left, False, False)
    assert stop.why == "gain"
    assert "less than 2 points (--stop-below)" in stop.text
    assert f"{left} configurations not evaluated" in stop.text
    assert search.scheduler.explain_end(Execution(), 0, False, False) == COMPLETE
    assert Search(everything=True).scheduler.explain_end(Execution(), 1, False, False) == COMPLETE
