"""What makes a candidate good: the metrics of a classifier, the costs of its mistakes, the preference among figures."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from advisor.core._errors import UsageError, nearest
from advisor.core._units import plain, show_bytes, show_ms

TOP1 = "top1"
BALANCED_ACCURACY = "balanced-accuracy"
MACRO_F1 = "macro-f1"
TOP5 = "top5"
LOG_LOSS = "log-loss"
COST_SAVED = "cost-saved"
WORST_GROUP = "worst-group"

LEAST_GROUP_IMAGES = 20
"""Images of a part that a group needs to be among those that :data:`WORST_GROUP` compares."""

LAYOUT = "the first row names the answers, the first column the true class: class,cat,dog / cat,0,1 / dog,5,0"

POINT_WORTH = 1.4
"""Factor in latency or size that one more point of accuracy is worth, at equal weights."""

SHOWN_WORTH = 9.0
"""Additional weight, in the plan of a search, of a point by which a result would be behind beyond the noise."""

LOST_WORTH = 1.0
"""Additional weight, in the plan of a search, of a point that a form is expected to lose against its float form."""

TIED_WORTH = 2.0
"""Additional weight of a point by which one of the tied candidates is behind another one: it counts as a factor of
1.4^3 = 2.7. Chosen on made-up answers, see docs/decisions."""

MAX_WEIGHT = 100.0

SCALE = 0.1
"""Share of a limit below which a saving counts little; see :meth:`Preference.within`. A tenth of the latency at a
fiftieth of the limit is worth half a point. Chosen on splits of two sets, see docs/decisions."""

AT_ONCE_MS = 100.0
"""Latency limit that the scale is a share of where none is set: up to it, an answer seems to come at once (R. B.
Miller, "Response time in man-computer conversational transactions", AFIPS 1968)."""

INSTALLS_BYTES = 6e6
"""Bytes of an app that cost 1 % of its installs (S. Tolomei, "Shrinking APKs, growing installs", Google Play 2017). At
their scale, where no size limit is set, they count like a point of accuracy."""

_EXAMPLE = "--prefer takes balanced, accuracy, latency or size, or weights: --prefer accuracy=2,latency=1,size=0.5"


@dataclass(frozen=True)
class Metric:
    """One metric, in %: higher is better."""

    name: str  #: as users write it
    label: str  #: in sentences and tables
    meaning: str  #: what it is, in words


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric(TOP1, "top-1", "share of the images whose most probable class is right"),
            Metric(BALANCED_ACCURACY, "balanced accuracy", "mean recall of the classes, so that each counts the same"),
            Metric(
                MACRO_F1, "macro F1", "mean F1 of the classes: wrong answers count for the class that they name, too"
            ),
            Metric(TOP5, "top-5", "share of the images whose class is among the five most probable"),
            Metric(LOG_LOSS, "mean probability", "geometric mean of the probability of the true class, exp(-log loss)"),
            Metric(
                COST_SAVED, "cost saved", "share of the cost that is saved against always giving the cheapest answer"
            ),
            Metric(
                WORST_GROUP,
                "worst-group top-1",
                f"lowest top-1 of the groups with at least {LEAST_GROUP_IMAGES} images; the lowest of several is too "
                "low on average, by chance",
            ),
        )
    }
)
"""Every metric by its name."""


@dataclass(frozen=True)
class Costs:
    """The costs of answers."""

    classes: tuple[str, ...]  #: names of the classes
    #: for each true class the cost of each answer, in the order of ``classes``; 0 for the right answer.
    rows: tuple[tuple[float, ...], ...]
    file: str = field(default="", compare=False)  #: name of the file, for messages

    @property
    def text(self) -> str:
        """The costs as CSV, classes sorted: equal costs have equal texts."""
        names = tuple(sorted(self.classes))
        out = io.StringIO()
        rows = [[str(cost).removesuffix(".0") for cost in row] for row in self.of(names)]
        table = [("class", *names), *((name, *row) for name, row in zip(names, rows, strict=True))]
        csv.writer(out, lineterminator="\n").writerows(table)
        return out.getvalue()

    def of(self, classes: Sequence[str]) -> tuple[tuple[float, ...], ...]:
        """Return the costs with rows and columns in the order of ``classes``; UsageError if the two differ."""
        for name in self.classes:
            if name not in classes:
                raise UsageError(
                    f"--costs: the images have no class '{plain(name)}' of {self._where}{nearest(name, classes)}",
                    f"classes of the images: {', '.join(map(plain, classes))}",
                )
        for name in classes:
            if name not in self.classes:
                raise UsageError(
                    f"--costs: {self._where} has no row and column for the class '{plain(name)}' of the images",
                    "add both; a right answer costs 0",
                )
        places = [self.classes.index(name) for name in classes]
        return tuple(tuple(self.rows[row][column] for column in places) for row in places)

    @property
    def _where(self) -> str:
        return f"'{plain(self.file)}'" if self.file else "the table"


def parse_costs(text: str, file: str = "") -> Costs:
    """Return the costs in a CSV text: a header with the answers, and a row for each true class, which it begins with.

    Raises UsageError: no table, a class that is missing, unknown or named twice, or a cost that is no finite number
    from 0 on; the diagonal is not 0, all costs are 0, or one answer is free for every class.
    """
    where = f"'{plain(file)}'" if file else "the table"
    try:
        reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
        lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise UsageError(f"--costs: {where} cannot be read as CSV: {error}", LAYOUT) from None
    if len(lines) < 2 or len(lines[0][1]) < 3:
        raise UsageError(f"--costs: {where} has no costs of two classes", LAYOUT)
    answers = lines[0][1][1:]
    table = lines[1:]
    _require_once(answers, [lines[0][0]] * len(answers), f"{where} has two columns")
    names = [row[0] for _, row in table]
    _require_once(names, [line for line, _ in table], f"{where} has two rows")
    for line, (name, *cells) in table:
        if name not in answers:
            raise UsageError(
                f"--costs: line {line} of {where} is for the class '{plain(name)}', which has no column"
                f"{nearest(name, answers)}",
                LAYOUT,
            )
        if len(cells) != len(answers):
            raise UsageError(
                f"--costs: line {line} of {where} (class '{plain(name)}') has {len(cells)} costs, and the header names "
                f"{len(answers)} answers",
                LAYOUT,
            )
    for name in answers:
        if name not in names:
            raise UsageError(f"--costs: {where} has a column for the class '{plain(name)}' and no row", LAYOUT)
    by_name = {
        name: tuple(
            _cost(cell, answer, name, f"line {line} of {where}") for cell, answer in zip(cells, answers, strict=True)
        )
        for line, (name, *cells) in table
    }
    rows = tuple(by_name[name] for name in answers)
    if not any(map(any, rows)):
        raise UsageError(f"--costs: all costs of {where} are 0: every model would be the best", LAYOUT)
    for answer, column in zip(answers, zip(*rows, strict=True), strict=True):
        if not any(column):
            raise UsageError(
                f"--costs: in {where} the answer '{plain(answer)}' costs 0 for every class, so no model is needed",
                "write what it costs to answer so wrongly",
            )
    return Costs(tuple(answers), rows, file)


def _require_once(names: Sequence[str], lines: Sequence[int], what: str) -> None:
    for place, (name, line) in enumerate(zip(names, lines, strict=True)):
        if not name:
            raise UsageError(
                f"--costs: {what.rpartition(' has ')[0]} has a class without a name in line {line}", LAYOUT
            )
        if name in names[:place]:
            raise UsageError(f"--costs: {what} for the class '{plain(name)}' (line {line})", "remove one of them")


def _cost(cell: str, answer: str, name: str, where: str) -> float:
    """Return one cost."""
    what = f"--costs: {where}: the answer '{plain(answer)}' to the class '{plain(name)}' costs '{plain(cell)}'"
    try:
        cost = float(cell)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost):
        raise UsageError(f"{what}, which is not a number", "write a number such as 1 or 2.5, with a point")
    if cost < 0:
        raise UsageError(f"{what}, which is below 0", "costs are 0 for the right answer, and above 0 for what is worse")
    if cost and answer == name:
        raise UsageError(
            f"{what}, and a right answer costs 0", f"subtract {cost:g} from all costs of the class '{plain(name)}'"
        )
    return cost


Figure = Any
"""A number, or an array of them."""


@dataclass(frozen=True)
class Preference:
    """Weights of the three figures; only their ratios count."""

    accuracy: float = 1.0  #: weight of a point of accuracy: at 1, a point is worth a factor of :data:`POINT_WORTH`
    latency: float = 1.0  #: weight of a factor in latency
    size: float = 1.0  #: weight of a factor in size
    #: only candidates that the images do not show to be behind the most accurate one are weighed, and their points
    #: count three times.
    accuracy_first: bool = False
    name: str = ""  #: name on the command line, empty for weights that the user wrote
    scale_ms: float = 0.0  #: added to a latency before its logarithm counts, milliseconds
    scale_bytes: float = 0.0  #: added to a size, bytes

    def within(self, limits: Mapping[str, float]) -> Preference:
        """Return the same preference with the limits of ``latency`` (ms) and ``size`` (bytes) as scales.

        Near a limit, a factor counts as such; far below it hardly, as :data:`SCALE` of the limit is added before
        factors are formed. Weights that the user wrote, and a preference for one figure, stay as they are.
        """
        if not self.accuracy_first:
            return self
        size = SCALE * limits["size"] if "size" in limits else INSTALLS_BYTES / (POINT_WORTH - 1)
        return replace(self, scale_ms=SCALE * limits.get("latency", AT_ONCE_MS), scale_bytes=size)

    def price(self, latency_ms: Figure, size_bytes: Figure) -> Figure:
        """Return the cost of latency and size: the part of the loss that is not accuracy, in the same unit."""
        import numpy as np

        latency = np.log(latency_ms + self.scale_ms)
        size = np.log(size_bytes + self.scale_bytes)
        return self.latency * latency + self.size * size

    @property
    def point_factor(self) -> float:
        """The factor in latency or size that a point of accuracy is worth."""
        return float(POINT_WORTH ** (self.accuracy * (1 + TIED_WORTH * self.accuracy_first)))

    def price_of_points(self, behind: Figure) -> Figure:
        """Return the loss of a candidate ``behind`` any fixed accuracy by so many points, in the unit of a price."""
        return math.log(self.point_factor) * behind

    def loss(self, behind: Figure, shown: Figure, lost: Figure) -> Figure:
        """Return the loss by accuracy in the plan of a search, in logarithms of a factor in latency or size.

        In points: the network's float form is ``behind`` any fixed accuracy; a result would be ``shown`` to be behind
        another candidate, at least 0; and the form is expected to have ``lost`` against the float form.
        """
        more = SHOWN_WORTH * shown + LOST_WORTH * lost if self.accuracy_first else 0.0
        return self.accuracy * math.log(POINT_WORTH) * (behind + lost + more)

    def point(self, latency_ms: float, size_bytes: float) -> str:
        """Return what a point of accuracy is worth at a latency and a size: ``6.6 ms or 8.9 MB``."""
        more = self.point_factor - 1
        worth = (
            show_ms((latency_ms + self.scale_ms) * more) if self.latency else "",
            show_bytes((size_bytes + self.scale_bytes) * more) if self.size else "",
        )
        return " or ".join(filter(None, worth))

    @property
    def weighs_costs(self) -> bool:
        """True if latency or size count beside the accuracy."""
        return self.latency > 0 or self.size > 0

    @property
    def rule(self) -> str:
        """The rule in words, for the answer's page."""
        if self.name in ("accuracy", "latency", "size"):
            return f"The rule: of the candidates within the limits, the one with the best {self.name}."
        figures = (("latency", self.latency), ("size", self.size))
        costs = [f"{name} (weight {weight:g})" if weight != 1 else name for name, weight in figures if weight]
        counted = (
            f"{' and '.join(costs).capitalize() or 'No cost'} {'count' if len(costs) > 1 else 'counts'} as factors"
        )
        if self.scale_ms:
            counted += (
                f"; {show_ms(self.scale_ms)} and {show_bytes(self.scale_bytes)} are added first, so that time and size "
                "far below the limits count little"
            )
        if self.accuracy:
            counted += f". A point of accuracy counts as a factor of {self.point_factor:.2g}"
        if not self.accuracy_first:
            return f"The rule: of the candidates within the limits, the one with the smallest loss. {counted}."
        return (
            "The rule: of the candidates within the limits, those that the validation images do not show to be behind "
            "the most accurate one: the difference on the same images is at most its standard error. Of these, the "
            f"cheapest. {counted}. A file that ran on the hold-out comes before one that did not, and a network whose "
            "fine-tuning was not shortened before its head. If other images were drawn from the same ones, no other "
            "file may be the pick more often."
        )

    def doubled(self, figure: str) -> Preference:
        """Return the same preference with twice the weight on ``latency``, ``size`` or ``accuracy``."""
        return replace(self, **{figure: 2 * getattr(self, figure)}, name="")

    def __str__(self) -> str:
        return self.name or f"accuracy={self.accuracy:g},latency={self.latency:g},size={self.size:g}"


BALANCED = Preference(accuracy_first=True, name="balanced")
"""The default: accuracy first; of candidates that the images do not tell apart, the fastest and smallest."""

PREFERENCES: Mapping[str, Preference] = {
    "balanced": BALANCED,
    "accuracy": Preference(1.0, 0.0, 0.0, name="accuracy"),
    "latency": Preference(0.0, 1.0, 0.0, name="latency"),
    "size": Preference(0.0, 0.0, 1.0, name="size"),
}


def parse_preference(text: str) -> Preference:
    """Parse a name of :data:`PREFERENCES`, or weights such as ``accuracy=2,latency=1,size=0.5`` (missing: 0).

    Raises UsageError: an unknown name or figure, a weight outside 0 to 100, or no weight above 0.
    """
    wanted = text.strip().lower()
    if wanted in PREFERENCES:
        return PREFERENCES[wanted]
    if "=" not in wanted:
        raise UsageError(f"--prefer: unknown preference '{text}'{nearest(wanted, PREFERENCES)}", _EXAMPLE)
    weights = {"accuracy": 0.0, "latency": 0.0, "size": 0.0}
    for part in wanted.split(","):
        figure, _, number = (piece.strip() for piece in part.partition("="))
        if figure not in weights:
            raise UsageError(f"--prefer: unknown figure '{figure}'{nearest(figure, weights)}", _EXAMPLE)
        weights[figure] = _weight(figure, number)
    if not any(weights.values()):
        raise UsageError(f"--prefer: '{text}' has no weight above 0", _EXAMPLE)
    return Preference(weights["accuracy"], weights["latency"], weights["size"])


def _weight(figure: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 <= weight <= MAX_WEIGHT:
        raise UsageError(f"--prefer: the weight '{text}' of {figure} is not a number from 0 to 100", _EXAMPLE)
    return weight
