"""The costs of mistakes that a user states as a CSV table (``--costs``): parsing and checks.

With them, a search decides by the saved cost (:attr:`.Metric.COST_SAVED`). The table is a part of
the question: :attr:`Costs.text` is the same for equal costs, because the request of a run keeps
it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from advisor.core._errors import UsageError, nearest
from advisor.core._units import plain

LAYOUT = (
    "the first row names the answers, the first column the true class: class,cat,dog / cat,0,1 /"
    " dog,5,0"
)


@dataclass(frozen=True)
class Costs:
    """The costs of answers."""

    classes: tuple[str, ...]  #: names of the classes
    #: for each true class the cost of each answer, in the order of ``classes``;
    #: 0 for the right answer.
    rows: tuple[tuple[float, ...], ...]
    file: str = field(default="", compare=False)  #: name of the file, for messages

    @staticmethod
    def parse(text: str, file: str = "") -> Costs:
        """Return the costs in a CSV text:
        a header with the answers, and a row for each true class, which begins it.

        Raises UsageError: no table, a class that is missing, unknown or named twice, or a cost
        that is no finite number from 0 on; the diagonal is not 0, all costs are 0, or one answer
        is free for every class.
        """
        where = _name_table(file)
        header_line, answers, table = _read_table(text, where)
        _require_once(answers, [header_line] * len(answers), where, "columns")
        _require_once([row.name for row in table], [row.line for row in table], where, "rows")
        _require_same_classes(answers, table, where)
        by_name = {}
        for row in table:
            place = f"line {row.line} of {where}"
            costs = []
            for cell, answer in zip(row.cells, answers, strict=True):
                costs.append(_parse_cost(cell, answer, row.name, place))
            by_name[row.name] = tuple(costs)
        rows = tuple(by_name[name] for name in answers)
        _require_use(answers, rows, where)
        return Costs(tuple(answers), rows, file)

    @property
    def text(self) -> str:
        """The costs as CSV, classes sorted: equal costs have equal texts."""
        names = tuple(sorted(self.classes))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("class", *names))
        for name, row in zip(names, self.of(names), strict=True):
            writer.writerow((name, *(str(cost).removesuffix(".0") for cost in row)))
        return text.getvalue()

    def of(self, classes: Sequence[str]) -> tuple[tuple[float, ...], ...]:
        """Return the costs with rows and columns in the order of ``classes``;
        UsageError if the two differ.
        """
        where = _name_table(self.file)
        for name in self.classes:
            if name not in classes:
                raise UsageError(
                    f"--costs: the images have no class '{plain(name)}' of"
                    f" {where}{nearest(name, classes)}",
                    f"classes of the images: {', '.join(map(plain, classes))}",
                )
        for name in classes:
            if name not in self.classes:
                raise UsageError(
                    f"--costs: {where} has no row and column for the class '{plain(name)}' of the"
                    " images",
                    "add both; a right answer costs 0",
                )
        places = list(map(self.classes.index, classes))
        rows = []
        for row in places:
            rows.append(tuple(self.rows[row][column] for column in places))
        return tuple(rows)


def _name_table(file: str) -> str:
    """Return how messages name the table: by its file, if there is one."""
    if file:
        return f"'{plain(file)}'"
    return "the table"


@dataclass(frozen=True)
class _Row:
    """A row of the table: the costs of the answers to one true class."""

    line: int  # in the file
    name: str  # of the true class
    cells: list[str]  # as they are written, one for each answer


def _read_table(text: str, where: str) -> tuple[int, list[str], list[_Row]]:
    """Return the line of the header, the answers that it names, and the rows;
    UsageError for another text.
    """
    lines = []
    try:
        reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
        for row in reader:
            cells = [cell.strip() for cell in row]
            # Sheets have empty rows behind the last one.
            if any(cells):
                lines.append((reader.line_num, cells))
    except csv.Error as error:
        raise UsageError(f"--costs: {where} cannot be read as CSV: {error}", LAYOUT) from None
    # Two classes need a header of three cells and a row.
    if len(lines) < 2 or len(lines[0][1]) < 3:
        raise UsageError(f"--costs: {where} has no costs of two classes", LAYOUT)
    header_line, header = lines[0]
    rows = [_Row(line, name, costs) for line, (name, *costs) in lines[1:]]
    return header_line, header[1:], rows


def _require_same_classes(answers: Sequence[str], rows: Sequence[_Row], where: str) -> None:
    """Refuse a table whose rows and columns are of different classes,
    or a row of another length.
    """
    for row in rows:
        if row.name not in answers:
            raise UsageError(
                f"--costs: line {row.line} of {where} is for the class '{plain(row.name)}', which"
                f" has no column{nearest(row.name, answers)}",
                LAYOUT,
            )
        if len(row.cells) != len(answers):
            raise UsageError(
                f"--costs: line {row.line} of {where} (class '{plain(row.name)}') has"
                f" {len(row.cells)} costs, and the header names {len(answers)} answers",
                LAYOUT,
            )
    names = [row.name for row in rows]
    for name in answers:
        if name not in names:
            raise UsageError(
                f"--costs: {where} has a column for the class '{plain(name)}' and no row", LAYOUT
            )


def _require_use(answers: Sequence[str], rows: Sequence[Sequence[float]], where: str) -> None:
    """Refuse costs by which every model is the best, or one answer without a model."""
    if not any(map(any, rows)):
        raise UsageError(
            f"--costs: all costs of {where} are 0: every model would be the best", LAYOUT
        )
    for answer, column in zip(answers, zip(*rows, strict=True), strict=True):
        if not any(column):
            raise UsageError(
                f"--costs: in {where} the answer '{plain(answer)}' costs 0 for every class, so no"
                " model is needed",
                "write what it costs to answer so wrongly",
            )


def _require_once(names: Sequence[str], lines: Sequence[int], where: str, part: str) -> None:
    """Refuse a class without a name, or with two columns or rows: ``part`` says which."""
    for place, (name, line) in enumerate(zip(names, lines, strict=True)):
        if not name:
            raise UsageError(f"--costs: {where} has a class without a name in line {line}", LAYOUT)
        if name in names[:place]:
            raise UsageError(
                f"--costs: {where} has two {part} for the class '{plain(name)}' (line {line})",
                "remove one of them",
            )


def _parse_cost(cell: str, answer: str, name: str, place: str) -> float:
    """Return the cost of an answer to the class ``name``;
    UsageError for another text than a number that can be one.
    """
    what = (
        f"--costs: {place}: the answer '{plain(answer)}' to the class '{plain(name)}' costs"
        f" '{plain(cell)}'"
    )
    try:
        cost = float(cell)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost):
        raise UsageError(
            f"{what}, which is not a number", "write a number such as 1 or 2.5, with a point"
        )
    if cost < 0:
        raise UsageError(
            f"{what}, which is below 0",
            "costs are 0 for the right answer, and above 0 for what is worse",
        )
    if cost and answer == name:
        raise UsageError(
            f"{what}, and a right answer costs 0",
            f"subtract {cost:g} from all costs of the class '{plain(name)}'",
        )
    return cost
