"""The steps that would change an answer most, each with its command.

Every form of a report shows them. The first is the next step, so the order is by use: a smaller
file, fine-tuning, more images, and more of the search.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

from advisor.core import (
    FLOAT,
    Evaluation,
    Provenance,
    Status,
    UsageError,
    form_of,
    plural,
    show_bytes,
    show_seconds,
)
from advisor.engine import continue_command as continue_command
from advisor.reporting._blocks import Labelled, Span, Words
from advisor.reporting._classes import compute_recalls
from advisor.reporting._phrases import count_configurations
from advisor.reporting._risks import is_worthless
from advisor.reporting._text import name_place, shorten_name

if TYPE_CHECKING:
    from advisor.reporting._view import RunView

OWN_IMAGES = "advisor search --budget {budget} --data YOUR_PHOTOGRAPHS"
OWN_BUDGET = "50ms"
INT8 = "int8"
FLOATS = (FLOAT, "float16")
"""Forms that compute in floating point: an int8 file of theirs would be smaller."""

RAN_OUT = ("time_limit", "max_trials")
"""The ends of a search that leave configurations which may still gain,
as ``manifest.json`` has them.
"""

ALSO = "Also possible"

NEARLY_CERTAIN = 0.99
"""Probability of meeting the budget from which on a measurement can wait."""

WIDE = 0.1
"""A class whose interval has a larger half width (0-1) needs more images
before its figure says much.
"""


@dataclass(frozen=True)
class NextStep:
    """One step: its topic in few words, what it buys, and the command that does it."""

    topic: str
    what: str
    command: str

    @property
    def words(self) -> Words:
        """The step as words, with its command."""
        return f"{self.what}: ", Span(self.command, "command")


def next_steps(view: RunView) -> tuple[NextStep, ...]:
    """Return the steps that the user can take now;
    none before the search has ended, and without a pick.
    """
    pick = view.decision.pick
    if pick is None or view.insights.unfinished or not view.decision.feasible:
        return ()
    return tuple(_list_steps(view, pick))


def step_blocks(view: RunView) -> list[Labelled]:
    """Return a line for each step, the first of which is next."""
    labels = chain(("Next",), repeat(ALSO))
    return [
        Labelled(label, step.words) for label, step in zip(labels, next_steps(view), strict=False)
    ]


def next_step(view: RunView) -> Labelled | None:
    """Return the line of what to do next; None where there is nothing."""
    steps = step_blocks(view)
    if steps:
        return steps[0]
    return Labelled("Next", command_words(view)) if find_next_command(view) else None


def find_next_command(view: RunView) -> str:
    """Return the command that ends an answer;
    empty without one, and where it would ship a file that finds nothing.
    """
    ships = view.next_command.startswith("advisor export")
    return "" if ships and is_worthless(view) else view.next_command


def command_words(view: RunView) -> Words:
    """Return what to do next where an answer has no other step, with its command."""
    step = NextStep(view.next_topic, view.next_topic, view.next_command)
    return step.words if view.next_topic else Span(view.next_command, "command")


def _list_steps(view: RunView, pick: Evaluation) -> Iterator[NextStep]:
    """Yield what the user can do next, what is most useful first."""
    if view.demonstration:
        what = "search with your own photographs, a folder for each class"
        # Another budget than that of the answer would be another question.
        budget = view.request.written["budget"] or OWN_BUDGET
        command = OWN_IMAGES.format(budget=shlex.quote(str(budget)))
        yield NextStep("your own photographs", what, command)
        # The images are drawn, so no other step would say anything
        # of the user's own (decision 0142).
        return
    if lacks_int8(view, pick):
        now = "is not compressed yet"
        if pick.configuration.compression != FLOAT:
            now = "has float16 weights so far"
        what = f"int8 of the pick, which {now}{int8_size(pick)}"
        yield NextStep("a smaller file (int8)", what, continue_command(view.folder))
    # A device that a file fits with near certainty can wait.
    is_sure = (pick.budget_probability or 0.0) >= NEARLY_CERTAIN
    if not is_sure:
        yield from _list_measuring(view, pick)
    tuning = view.insights.tuning
    if tuning is not None:
        ends = f"{tuning.low:+.0f} to {tuning.high:+.0f}"
        gain = f"about {tuning.points:+.0f} points (in two of three cases {ends})"
        time = f"the training takes about {show_seconds(tuning.seconds)}"
        if tuning.limited:
            time += ", and the time limit leaves room for the rest of the search"
        what = f"fine-tuning of {tuning.card}, {gain}; {time}"
        yield NextStep("fine-tuning", what, tuning.command(view.folder))
    networks = view.manifest.get("whole_networks")
    if networks:
        what = f"{plural(len(networks), 'network')} without weights here that learnt other objects"
        command = f"advisor catalog fetch {' '.join(networks)}"
        yield NextStep("a start from other objects", what, command)
    images, label = count_wanted_images(view, pick)
    if images:
        more = f"{plural(images, 'more image')} of '{label}'"
        yield NextStep(
            f"more images of '{shorten_name(label)}'",
            f"{more}, which halve the interval of this class; add them, then",
            f"advisor search --request {view.typed_folder}/request.yaml",
        )
    if not lacks_int8(view, pick):
        yield from list_rest(view)
    if is_sure:
        yield from _list_measuring(view, pick)


def _list_measuring(view: RunView, pick: Evaluation) -> Iterator[NextStep]:
    """Yield the step that measures a pick whose latency is predicted for a device that can be
    connected.
    """
    device = pick.configuration.target.device
    connection = (view.manifest.get("connections") or {}).get(device)
    if not connection or pick.latency is None:
        return
    if pick.latency.provenance is Provenance.PREDICTED:
        topic = f"a measurement on {name_place(device)}"
        yield NextStep(
            topic,
            f"{topic}, whose latency is predicted; connect it, then",
            f"advisor reevaluate {view.typed_folder} --device {shlex.quote(device)} {connection}",
        )


def list_rest(view: RunView) -> Iterator[NextStep]:
    """Yield the step that goes on with a search which its limit ended;
    nothing for others and for a demonstration.
    """
    stopped = view.manifest.get("stopped") or {}
    left = count_configurations(view).unreached
    # An answer to another question than the run's ends in the command that ships its pick.
    answers_again = view.next_command.startswith("advisor export")
    if view.demonstration or view.insights.unfinished or answers_again:
        return
    if stopped.get("why") in RAN_OUT and left:
        # The line of counts says how many these are.
        what = "more of the search, which its limit ended"
        yield NextStep("more of the search", what, continue_command(view.folder))


def is_int8_next(view: RunView) -> bool:
    """Return whether the first step makes an int8 file of the pick."""
    pick = view.decision.pick
    if pick is None or view.demonstration or not next_steps(view):
        return False
    return lacks_int8(view, pick)


def lacks_int8(view: RunView, pick: Evaluation) -> bool:
    """Return whether a float pick has no int8 file because the search had no time to make one."""
    # A finished model of the user is never compressed (decision 0080).
    if pick.configuration.compression not in FLOATS or pick.card_facts.as_it_is:
        return False
    int8 = list_int8(view, pick)
    compressions = view.request.question.compressions
    if not int8 and compressions and INT8 not in compressions:
        return False
    # A resumed search considers again what this one did not begin.
    return not any(row.was_begun for row in int8) and (
        bool(int8) or count_configurations(view).unreached > 0
    )


def int8_size(pick: Evaluation) -> str:
    """Return the size that an int8 file of a float pick would have, in words."""
    smaller = form_of(INT8).bytes / form_of(pick.configuration.compression).bytes
    if pick.size:
        return f", about {show_bytes(smaller * pick.size.value)}"
    return ""


def list_int8(view: RunView, pick: Evaluation) -> list[Evaluation]:
    """Return the evaluations of the int8 form of the pick's network."""
    forms = []
    for row in view.evaluations:
        if row.network == pick.network and row.configuration.compression == INT8:
            forms.append(row)
    return forms


def find_failed_int8(view: RunView, pick: Evaluation) -> Evaluation | None:
    """Return the int8 file of a float pick that failed;
    None if it did not fail, or if there is another one.
    """
    if pick.configuration.compression not in FLOATS:
        return None
    failed = None
    for row in list_int8(view, pick):
        if row.status is Status.OK:
            return None
        if row.status is Status.FAILED and failed is None:
            failed = row
    return failed


def count_wanted_images(view: RunView, pick: Evaluation) -> tuple[int, str]:
    """Return how many more images halve the interval of the class with the widest one,
    and its name; 0 for none.
    """
    answers = pick.holdout_answers or pick.answers
    try:
        class_recalls = compute_recalls(answers, view.classes) if answers.has_classes else ()
    except UsageError:  # they are damaged, which the section on classes says
        class_recalls = ()
    rows_with_figures = []
    for row in class_recalls:
        if row.low is not None and row.high is not None:
            rows_with_figures.append((row.high - row.low, row.label))
    width, label = max(rows_with_figures, default=(0.0, ""))
    images = 0
    if view.dataset:
        images = view.dataset.images_per_class.get(label, 0)
    # Four times as many images as there are halve an interval.
    if width > 200 * WIDE:
        return (3 * images, label)
    return (0, "")
