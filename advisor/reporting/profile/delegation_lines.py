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
    described: set[str] = set()
    several = len({name for name, _ in delegations}) > 1
    for name, delegation in delegations:
        label = f"{name}, {delegation.accelerator.name}" if several else delegation.accelerator.name
        yield line(text.plain(label), delegation.sentence, "yellow" if delegation.objections else "green")
        if delegation.accelerator.about and delegation.accelerator.name not in described:
            yield Text(f"  {text.plain(delegation.accelerator.about)}", style="dim")
        described.add(delegation.accelerator.name)
        yield from (Text(f"  not supported: {text.plain(reason)}") for reason in reasons(delegation))


def reasons(delegation: Delegation) -> list[str]:
    """Return the most frequent reasons with their counts, and how many more there are."""
    found = [f"{reason} ({count}x)" if count > 1 else reason for reason, count in delegation.reasons.items()]
    more = len(found) - SHOWN_REASONS
    return found[:SHOWN_REASONS] + ([f"and {text.plural(more, 'other reason')}"] if more > 0 else [])
