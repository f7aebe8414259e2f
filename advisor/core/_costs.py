"""Parse and check the costs of mistakes that a user states."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from advisor.core._errors import UsageError, nearest
from advisor.core._units import plain

LAYOUT = "the first row names the answers, the first column the true class: class,cat,dog / cat,0,1 / dog,5,0"


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
        rows = []
        for row in self.of(names):
            rows.append([str(cost).removesuffix(".0") for cost in row])
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
        places = list(map(self.classes.index, classes))
        rows = []
        for row in places:
            rows.append(tuple(self.rows[row][column] for column in places))
        return tuple(rows)

    @property
    def _where(self) -> str:
        if self.file:
            return f"'{plain(self.file)}'"
        return "the table"


def parse_costs(text: str, file: str = "") -> Costs:
    """Return the costs in a CSV text: a header with the answers, and a row for each true class, which it begins with.

    Raises UsageError: no table, a class that is missing, unknown or named twice, or a cost that is no finite number
    from 0 on; the diagonal is not 0, all costs are 0, or one answer is free for every class.
    """
    where = f"'{plain(file)}'" if file else "the table"
    try:
        reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
        lines = []
        for row in reader:
            cells = [cell.strip() for cell in row]
            # Sheets have empty rows behind the last one.
            if any(cells):
                lines.append((reader.line_num, cells))
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
    by_name = {}
    for line, (name, *cells) in table:
        place = f"line {line} of {where}"
        by_name[name] = tuple(_cost(cell, answer, name, place) for cell, answer in zip(cells, answers, strict=True))
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
