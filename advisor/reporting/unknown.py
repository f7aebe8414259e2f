"""Sentences and the report's section about images of things that are none of the classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from advisor.core.evaluation import Evaluation
from advisor.core.posterior import FLOAT
from advisor.core.statistics import Interval
from advisor.core.training import recipe_of
from advisor.core.units import plural, show_bytes
from advisor.core.unknown_facts import UnknownFacts
from advisor.measurement.unknown import KEPT
from advisor.reporting import text
from advisor.reporting.blocks import Block, Labelled, Span

if TYPE_CHECKING:
    from advisor.reporting.view import RunView

SAMPLE = "advisor search --unknown DIR"
"""The search that judges the user's own images of other things."""


def unknown(view: RunView) -> Mapping[str, object] | None:
    """Return the variables of the section's template; None if it was not tried."""
    pick = view.decision.pick
    if pick is None or pick.unknown is None:
        return None
    facts = pick.unknown
    return {
        "facts": facts,
        "lead": left_out(pick, facts),
        "rows": sorted(facts.by_class.items(), key=lambda row: row[1].auroc.value),
        "some": len(facts.by_class) < len(view.classes),
        "kept": KEPT,
        "larger": larger(pick, facts),
        "command": command(view, facts),
        "hint": SAMPLE,
        "given_up": given_up,
    }


def unknown_blocks(view: RunView) -> Iterator[Block]:
    """Return the same in three lines; nothing if it was not tried."""
    pick = view.decision.pick
    if pick is None or pick.unknown is None:
        return
    facts, ships = pick.unknown, command(view, pick.unknown)
    yield Labelled("Unknown images", left_out(pick, facts))
    yield Labelled("Your images of other things", other_things(facts) or (Span(SAMPLE, "code"), " judges them."))
    if said := " ".join(filter(None, (cost(pick, facts), f"To ship it: {ships}" if ships else ""))):
        yield Labelled("With one more class", said)


def left_out(pick: Evaluation, facts: UnknownFacts) -> str:
    """Return what was seen of the classes that were left out in turn, and what this is worth."""
    if facts.auroc is None:
        return "No class could be left out in turn: this takes three classes, and five validation images of the class."
    passes = (
        f"An image of something that is none of your classes passes as known in {100 * facts.accepted:.0f} % of the "
        f"cases, if {100 * KEPT:.0f} % of the known images are to pass. "
        if facts.accepted is not None
        else ""
    )
    compressed = pick.configuration.compression != FLOAT and facts.float_auroc is not None
    reference = f"; float32: {facts.float_auroc.value:.2f}" if compressed and facts.float_auroc else ""
    ranks = f"The probability that it ranks behind a known image (AUROC) is {text.bounds(facts.auroc, 2)}{reference}."
    return f"{passes}{ranks}{f' {TOO_HIGH}' if flattered(pick) else ''}"


TOO_HIGH = "The AUROC is too high: fine-tuning has shown the network the left-out classes, too."


def flattered(pick: Evaluation) -> bool:
    """Return whether the network learnt from the classes that were left out: only the head was fitted without them."""
    return recipe_of(pick.configuration.training).tunes_backbone


def other_things(facts: UnknownFacts) -> str:
    """Return how the user's images of other things are answered; empty without any."""
    if facts.others is None:
        return ""
    found, images = text.share(facts.others.found), plural(facts.others.images, "image")
    return (
        f"The file with the class '{facts.label}' finds {found} % of your {images} of other things; "
        f"AUROC {text.bounds(facts.others.auroc, 2)}."
    )


def cost(pick: Evaluation, facts: UnknownFacts) -> str:
    """Return what the file with one more class costs; empty if it is not known."""
    said = [f"is {larger(pick, facts)} larger"] if larger(pick, facts) else []
    if facts.kept is not None:
        said.append(f"gives up {text.share(given_up(facts.kept))} % of the known images")
    return f"The file with the class '{facts.label}' {' and '.join(said)}." if said else ""


def larger(pick: Evaluation, facts: UnknownFacts) -> str:
    """Return by how much the file with one more class is larger than the pick; empty if this is not known."""
    more = facts.size_bytes - pick.size.value if pick.size else 0
    return show_bytes(more) if more > 0 else ""


def given_up(kept: Interval) -> Interval:
    """Return the share of known images that are answered with the class for unknown things."""
    return Interval(1 - kept.value, 1 - kept.high, 1 - kept.low)


def command(view: RunView, facts: UnknownFacts) -> str:
    """Return the command that exports the file with one more class; empty if there is no file."""
    if not facts.file or not view.folder:
        return ""
    own = view.next_command.startswith("advisor export")  # the pick is that of another question
    return f"{view.next_command if own else f'advisor export {view.folder} --to bundle'} --unknown-class"
