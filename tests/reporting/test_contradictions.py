"""No two sentences of one answer contradict each other, over made-up decisions."""

import re
import shlex
from dataclasses import replace

from hypothesis import given, strategies as st

from advisor.core import Decision, Evaluation, Limits, Status, TuningFacts
from advisor.core._preferences import parse_preference
from advisor.engine import Insights, StageName
from advisor.engine._history.expected_tuning import ExpectedTuning
from advisor.engine._history.label_check import CheckedLabels, WrongLabel
from advisor.reporting import RunView
from advisor.reporting._foundations import describe_certainty, list_foundations
from advisor.reporting._phrases import count_configurations, counts, funnel
from tests.builders import evaluation, of_file, present
from tests.makers.commands import parse
from tests.reporting.views import run_view, said

IMAGES = 60
FORMS = ("float32", "weight_int8", "int8")
TRAININGS = ("head", "finetune_cached")
PREFERENCES = ("balanced", "balanced", "accuracy", "latency", "accuracy=1,latency=1,size=1")

NEXT = st.sampled_from(["", "advisor export runs/latest --to bundle", "xdg-open runs/latest/report.html"])
COMMAND = re.compile(
    r"^  (advisor .*)$|(?:Next|To ship|Then): (advisor .*)$|images: (advisor .*)$|here: (advisor [^;)]*)",
    re.MULTILINE,
)


@st.composite
def answers(draw: st.DrawFn) -> RunView:
    """Return a run of a few networks with made-up answers to the same images, and its decision."""
    right, rows = dict[object, tuple[float, ...]](), list[Evaluation]()
    easy = draw(st.integers(0, 2**IMAGES - 1))
    for card in range(draw(st.integers(1, 4))):
        for training in TRAININGS[: draw(st.integers(1, 2))]:
            for form in FORMS[: draw(st.integers(1, 3))]:
                bits = easy | draw(st.integers(0, 2**IMAGES - 1)) | draw(st.integers(0, 2**IMAGES - 1))
                row = _row(draw, f"card{card}", training, form, bits)
                right[row.configuration] = tuple(float(bits >> image & 1) for image in range(IMAGES))
                rows.append(row)
    limits = Limits(latency_ms=draw(st.sampled_from([5.0, 20.0, 50.0])))
    prefer = draw(st.sampled_from(PREFERENCES))
    decision = Decision.of_evaluations(rows, limits, lambda row: right[row.configuration], parse_preference(prefer))
    skipped = draw(st.integers(0, 3))
    others = [
        Evaluation(evaluation(f"later{n}").configuration, Status.SKIPPED, stage=StageName.STOP) for n in range(skipped)
    ]
    manifest = {"configurations": len(rows) + skipped + draw(st.integers(0, 100)), "stopped": {"why": "time_limit"}}
    tuning = ExpectedTuning(3.0, 1.0, 5.0, draw(st.integers(20, 4000)), "card0") if draw(st.booleans()) else None
    doubtful = (WrongLabel("glass/a b.jpg", "glass", "metal", 0.01, 0.9),) if draw(st.booleans()) else ()
    view = replace(run_view(), evaluations=(*rows, *others), limits=limits, decision=decision, manifest=manifest)
    return replace(
        view, insights=Insights(tuning, labels=CheckedLabels("card0", 400, doubtful)), next_command=draw(NEXT)
    )


def _row(draw: st.DrawFn, card: str, training: str, form: str, bits: int) -> Evaluation:
    latency = draw(st.integers(1, 40))
    # The medians and the 90th percentiles of two files may be in opposite order.
    p90, size = latency * draw(st.integers(1, 8)), draw(st.integers(1, 90)) * 1e5
    row = evaluation(card, form, accuracy=100 * bits.bit_count() / IMAGES, latency=latency, p90=p90, size=size)
    row = of_file(row, f"{card}{training}{form}")
    judged = evaluation(accuracy=draw(st.integers(50, 99))).accuracy if draw(st.booleans()) else None
    return replace(
        row,
        configuration=replace(row.configuration, training=training),
        holdout_accuracy=judged,
        tuning=TuningFacts(draw(st.booleans())) if training != "head" else None,
    )


@given(answers())
def test_no_sentence_of_an_answer_takes_another_one_back(view: RunView) -> None:
    decision, lines = view.decision, said(view, 4000)
    text = " ".join(lines.split())
    pick, best = present(decision.pick), max(evaluation.accuracy_percent for evaluation in view.ok)
    assert len(set(re.findall(r"--extend (\S+)", text))) <= 1, "one next step"
    assert "more than noise" not in text
    assert len(set(re.findall(r"^Next: (.*)$", lines, re.MULTILINE))) <= 1, "one next step"
    assert len(set(re.findall(r"fine-tuning of .* takes about ([^:]*):", lines))) <= 1, "one price for a step"
    assert ("fine-tuning of card0, about +3 points (in two of three cases +1 to +5)" in lines) == (
        "fine-tuning of " in lines
    )
    planned, *groups = map(int, re.findall(r"(?<!\()\b\d+", counts(view)))
    assert planned == count_configurations(view).planned == sum(groups) == funnel(view)[0].left
    assert set(re.findall(r"(\d+) configurations?\b", text)) == {str(planned)}
    commands = ["".join(found).strip() for found in COMMAND.findall(lines)]
    assert len(commands) == text.count("advisor ") - view.unfinished_sentence.count("advisor ")
    for command in commands:
        parse(shlex.split(command))
    if not decision.feasible:
        return
    within = [row for row in view.ok if view.limits.met_by(row)]
    best = max(evaluation.accuracy_percent for evaluation in within)
    assert ("is the most accurate candidate" in decision.reason) <= (pick.accuracy_percent == best)
    rows = {row.configuration.key: row for row in view.ok}
    for flip in decision.flips:
        assert "accuracy matters" not in flip.condition or rows[flip.key].accuracy_percent > pick.accuracy_percent
        p90 = re.search(r"latency budget \(p90\) is (?:below|between .* and) (\S+) ms: .*, p90 (\S+) ms, ", flip.text)
        assert ("latency budget" in flip.text) == bool(p90)
        assert p90 is None or float(p90[1]) > float(p90[2]), "the figure that the budget limits"
    assert "fastest candidate" not in decision.reason or "by median latency" in decision.reason
    assert decision.reason.startswith(pick.describe_figures()), "the figures of the pick are the same everywhere"
    tied = re.search(r"statistically tied with (\d+) other", decision.reason)
    files = {row.variant for row in decision.ties}
    assert tied is None or int(tied[1]) == len(files)
    elsewhere = re.search(r"; (\d+) more in the report", text)
    marked = max(0, text.count("≈") - 1)  # the legend has the sign, too
    assert marked + int(elsewhere[1] if elsewhere else 0) == len(files), (
        "the table has all ties, or says how many it lacks"
    )
    assert all(f"with {len(files)} other model file" in each for each in list_foundations(view, pick) if "tied" in each)
    if decision.why_not_faster:
        assert "tied too" in decision.why_not_faster
        assert any(decision.why_not_faster.startswith(f"{row.configuration.card} ") for row in decision.ties)
    if sure := describe_certainty(view):
        shares = [int(share) for share in re.findall(r"(\d+) %", sure)]
        assert shares[0] >= max(shares), "no other file is the pick more often"
