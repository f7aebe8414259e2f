"""The options of a search by which a finished run can be decided again: limits and preference.

``advisor search`` and ``plan`` have them among others (``_options.py``), ``advisor report`` has
them alone: nothing of them needs a new measurement. Their names are keys of request files and
keywords of public functions.
"""

from typing import Annotated, TypedDict

from advisor.core import _names as names, _units as units
from advisor.core._option import (
    Names,
    Option,
    OptionGroup,
    Places,
    Text,
    Texts,
    parse_paths,
)
from advisor.core._preferences import PREFERENCES, parse_preference


class LimitOptions(TypedDict, total=False):
    """The options that a finished run may be decided again with."""

    budget: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "TIME",
            "Latency limit that 9 of 10 runs meet, such as 50ms.",
            parse=units.parse_milliseconds,
            first=True,
        ),
    ]
    size_budget: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "SIZE",
            "Limit of the file size, such as 5MB.",
            parse=units.size_bytes,
        ),
    ]
    memory_budget: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "SIZE",
            "Limit of the peak memory, such as 50MB.",
            parse=units.size_bytes,
        ),
    ]
    max_drop: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "POINTS",
            "Points of accuracy that compression may cost, such as 1pt, or of another metric of"
            " detectors: map-small=5pt. Join by commas, or repeat.",
            joined=True,
        ),
    ]
    min_accuracy: Annotated[
        Texts,
        Option(
            OptionGroup.QUESTION,
            "PERCENT",
            "Lowest accuracy, such as 85%, or lowest value of another metric: worst-group=70%."
            " Join by commas, or repeat.",
        ),
    ]
    confidence: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "PERCENT",
            "Probability that a predicted latency meets the budget.",
            usual="90%",
            parse=names.parse_confidence,
        ),
    ]
    prefer: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "NAME",
            "Preference: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1.",
            usual="balanced",
            choices=tuple(PREFERENCES),
            parse=lambda text, _: parse_preference(text),
            first=True,
        ),
    ]
    licence: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "NAMES",
            "Accepted licences: permissive, SPDX identifiers, or both; repeat, or join by commas.",
            joined=True,
        ),
    ]
    must_run_on: Annotated[
        Names,
        Option(
            OptionGroup.DEVICES,
            "NAMES",
            "Further devices on which the pick must meet the budget; repeat, or join by commas.",
            joined=True,
        ),
    ]
    fleet: Annotated[
        Text,
        Option(
            OptionGroup.DEVICES,
            "FILE",
            "CSV of the phones that you ship to (device or soc, share), or phones-2026: which one"
            " to three files serve them. Needs --budget.",
            usual="no fleet",
        ),
    ]
    profiles: Annotated[
        Places,
        Option(
            OptionGroup.DEVICES,
            "DIR",
            "Folder of your own device profiles; repeat for more.",
            parse=parse_paths,
        ),
    ]
