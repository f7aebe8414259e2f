"""Read from a run folder which labels of its images are likely wrong.

A search writes ``labels.json`` when it has its answer (``_afterwards.py``), and reports show it.
The attributes are entries of that file.
"""

from dataclasses import dataclass

from advisor.core import parse
from advisor.store import RunFolder

LABELS = "labels.json"


@dataclass(frozen=True)
class WrongLabel:
    """An image whose label is likely wrong.

    Attributes:
        path: path of the image, relative to the data set.
        label: its class.
        suggested: the class that fits best.
        given: probability (0-1) of its class.
        better: probability (0-1) of the class that fits best.
    """

    path: str
    label: str
    suggested: str
    given: float
    better: float


@dataclass(frozen=True)
class CheckedLabels:
    """The result of the check.

    Attributes:
        card: the card whose features checked the labels.
        images: number of images that were checked: all but the hold-out.
        found: the images whose labels are likely wrong, the least likely label first.
    """

    card: str
    images: int
    found: tuple[WrongLabel, ...]


def read_label_check(run: RunFolder) -> CheckedLabels | None:
    """Return what the search found in the labels;
    None if it did not check them, or the document is damaged.
    """
    document = run.read_json(LABELS)
    try:
        checked: CheckedLabels = parse(
            CheckedLabels, {name: document[name] for name in ("card", "images", "found")}
        )
    except (KeyError, TypeError, ValueError):
        return None
    return checked
