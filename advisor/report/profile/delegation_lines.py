"""What accelerators would take of a file, as lines for the terminal; computed, never measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from advisor.benchmark.delegation import Delegation
from advisor.report import text
from advisor.report.profile.console import line

SHOWN_REASONS = 6


def lines(delegations: Sequence[Delegation]) -> Iterator[Text]:
    """Return a heading, and for each accelerator its sentence and why operators stay behind; nothing for none."""
    if not delegations:
        return
    yield Text()
    yield Text("Accelerators, computed from the file and not measured", style="bold")
    for told in delegations:
        yield line(told.rules.name, told.sentence, "yellow" if told.objections else "green")
        if told.rules.about:
            yield Text(f"  {text.plain(told.rules.about)}", style="dim")
        yield from (Text(f"  stays behind: {text.plain(reason)}") for reason in reasons(told))


def reasons(told: Delegation) -> list[str]:
    """Return the most frequent reasons with their counts, and how many more there are."""
    found = [f"{reason} ({count}x)" if count > 1 else reason for reason, count in told.reasons.items()]
    more = len(found) - SHOWN_REASONS
    return found[:SHOWN_REASONS] + ([f"and {text.plural(more, 'other reason')}"] if more > 0 else [])
