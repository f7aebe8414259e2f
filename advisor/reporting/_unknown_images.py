"""Images of things that are none of the classes: how the file answers them, and the file with one
more class.

The page has a section of it, and ``report.md`` three lines. The figures exist if a search had
enough classes to leave one out, or images of other things (``--unknown``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from advisor.core import FLOAT, Evaluation, Interval, UnknownFacts, plural, recipe_of, show_bytes
from advisor.engine import KEPT_SHARE
from advisor.reporting import _text as text
from advisor.reporting._blocks import Block, Labelled, Span

if TYPE_CHECKING:
    from advisor.reporting._view import RunView

FLATTERED = "The AUROC is too high: fine-tuning has shown the network the left-out classes, too."


def describe_unknown(view: RunView) -> Mapping[str, object] | None:
    """Return the variables of the section's template; None if it was not tried."""
    pick = view.decision.pick
    if pick is None or pick.unknown is None:
        return None
    facts = pick.unknown
    return {
        "facts": facts,
        "lead": describe_left_out(pick, facts),
        "rows": sorted(facts.by_class.items(), key=lambda row: row[1].auroc.value),
        "some": len(facts.by_class) < len(view.classes),
        "kept": KEPT_SHARE,
        "larger": show_growth(pick, facts),
        "command": make_export_command(view, facts),
        "hint": make_search_command(view),
        "given_up": share_given_up,
    }


def unknown_blocks(view: RunView) -> Iterator[Block]:
    """Yield the same in three lines; nothing if it was not tried."""
    pick = view.decision.pick
    if pick is None or pick.unknown is None:
        return
    facts = pick.unknown
    ships = make_export_command(view, pick.unknown)
    more = show_growth(pick, pick.unknown)
    yield Labelled("Unknown images", describe_left_out(pick, facts))
    yield Labelled(
        "Your images of other things",
        other_things(facts) or (Span(make_search_command(view), "code"), " judges them."),
    )
    costs = [f"is {more} larger"] if more else []
    if facts.kept is not None:
        costs.append(f"gives up {text.share(share_given_up(facts.kept))} % of the known images")
    sentence = ""
    if costs:
        sentence = f"The file with the class '{facts.label}' {' and '.join(costs)}. "
    if ships:
        yield Labelled("With one more class", (f"{sentence}To ship it: ", Span(ships, "command")))
    elif sentence:
        yield Labelled("With one more class", sentence.strip())


def describe_left_out(pick: Evaluation, facts: UnknownFacts) -> str:
    """Return what was seen of the classes that were left out in turn, and what this is worth."""
    if facts.auroc is None:
        return (
            "No class could be left out in turn: this takes three classes, and five validation"
            " images of the class."
        )
    ranks = (
        "The probability that it ranks behind a known image (AUROC) is"
        f" {text.bounds(facts.auroc, 2)}"
    )
    if pick.configuration.compression != FLOAT and facts.float_auroc is not None:
        ranks += f"; float32: {facts.float_auroc.value:.2f}"
    sentence = f"{ranks}."
    if is_flattered(pick):
        sentence += f" {FLATTERED}"
    if facts.accepted is None:
        return sentence
    return (
        "An image of something that is none of your classes passes as known in"
        f" {100 * facts.accepted:.0f} % of the cases, if {100 * KEPT_SHARE:.0f} % of the known"
        f" images are to pass. {sentence}"
    )


def is_flattered(pick: Evaluation) -> bool:
    """Return whether the network learnt from the classes that were left out:
    only the head was fitted without them.
    """
    return recipe_of(pick.configuration.training).tunes_backbone


def other_things(facts: UnknownFacts) -> str:
    """Return how the user's images of other things are answered; empty without any."""
    if facts.others is None:
        return ""
    percent = text.share(facts.others.found)
    images = plural(facts.others.images, "image")
    return (
        f"The file with the class '{facts.label}' finds {percent} % of your {images} of other"
        f" things; AUROC {text.bounds(facts.others.auroc, 2)}."
    )


def show_growth(pick: Evaluation, facts: UnknownFacts) -> str:
    """Return by how much the file with one more class is larger than the pick;
    empty if this is not known.
    """
    more = facts.size_bytes - pick.size.value if pick.size else 0
    return show_bytes(more) if more > 0 else ""


def share_given_up(answered: Interval) -> Interval:
    """Return the share of known images that are answered with the class for unknown things."""
    return Interval(1 - answered.value, 1 - answered.high, 1 - answered.low)


def make_search_command(view: RunView) -> str:
    """Return the search of the run's question that judges the user's own images
    of other things, too.
    """
    return f"advisor search --request {view.typed_folder}/request.yaml --unknown DIR"


def make_export_command(view: RunView, facts: UnknownFacts) -> str:
    """Return the command that exports the file with one more class; empty if there is no file."""
    if not facts.file or not view.folder:
        return ""
    export = f"advisor export {view.typed_folder} --to bundle"
    # The next command is another one where the pick is that of another question.
    if view.next_command.startswith("advisor export"):
        export = view.next_command
    return f"{export} --unknown-class"
