"""The operators of a file that accelerators support, as lines for the terminal; computed, not measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from advisor.measurement.accelerators.delegation import Delegation
from advisor.reporting import text
from advisor.reporting.console import line

SHOWN_REASONS = 6


def lines(delegations: Sequence[tuple[str, Delegation]]) -> Iterator[Text]:
    """Return a heading, and for each file and accelerator a sentence and why operators are not supported.

    Args:
        delegations: each with the file's name, which is shown if there are several; empty returns nothing.
    """
    if not delegations:
        return
    yield Text()
    yield Text("Accelerators (computed from the file, not measured)", style="bold")
    said: set[str] = set()
    several = len({name for name, _ in delegations}) > 1
    for name, told in delegations:
        label = f"{name}, {told.rules.name}" if several else told.rules.name
        yield line(text.plain(label), told.sentence, "yellow" if told.objections else "green")
        if told.rules.about and told.rules.name not in said:
            yield Text(f"  {text.plain(told.rules.about)}", style="dim")
        said.add(told.rules.name)
        yield from (Text(f"  not supported: {text.plain(reason)}") for reason in reasons(told))


def reasons(told: Delegation) -> list[str]:
    """Return the most frequent reasons with their counts, and how many more there are."""
    found = [f"{reason} ({count}x)" if count > 1 else reason for reason, count in told.reasons.items()]
    more = len(found) - SHOWN_REASONS
    return found[:SHOWN_REASONS] + ([f"and {text.plural(more, 'other reason')}"] if more > 0 else [])
