"""Answer for a fleet: one, two or three files, which phones get which, and what the fleet gets.

Reports and the export call :func:`fleet_answer` for a run with a fleet in its question. Sentences
here are read by users, in reports and on the terminal. ``_report.py`` writes the answer into
``recommendation.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from advisor.core import (
    Evaluation,
    Limits,
    listed,
    plural,
    show_bytes,
    show_ms,
    show_probability,
    units,
)
from advisor.engine import Question, one_each
from advisor.integrations.fleet._choice import Floats, choose_files, total_value
from advisor.integrations.fleet._phones import Fleet, Phone, read_fleet
from advisor.integrations.fleet._predictions import BYTES_A_POINT, HARDLY, Matrix, predict_matrix
from advisor.reporting import text

MOST_FILES = 3


POINTS_A_FILE = 0.5
"""Points of accuracy, on average over the fleet, that a further file must add:
it is tested, hosted, kept current.
"""


OTHER_BUDGETS = ((0.8, 0.7, 0.5), (1.25, 1.5, 2.0))
"""Multiples of the latency limit, shorter and longer ones,
that are tried for what would change the answer.
"""


@dataclass(frozen=True)
class Assigned:
    """The file of a phone: its place in the option, and what is predicted of it there.

    ``sure``: it meets every limit, the latency limit with the confidence of the question.
    ``probability`` is that of meeting the latency limit; ``low_ms`` and ``high_ms`` are 80 %
    bounds. All are None where nothing can be predicted.
    """

    phone: Phone
    tier: int
    sure: bool
    probability: float | None = None
    latency_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class FleetOption:
    """The result of some files for the fleet.

    Attributes:
        files: the files by accuracy, the floor (tier 0) first.
        phones: the file of each known phone, in the order of the fleet.
        accuracy: mean accuracy in % over the known phones, weighted by share.
        sure_share: share of the known phones that meet every limit with the confidence of the
            question.
        met_share: expected share of them that meets the latency limit.
        value: points of accuracy of sure phones less the size of their files, on average.
    """

    files: tuple[Evaluation, ...]
    phones: tuple[Assigned, ...]
    accuracy: float
    sure_share: float
    met_share: float
    value: float

    @property
    def bytes(self) -> float:
        """Size of all files."""
        return sum(evaluation.size_bytes for evaluation in self.files)

    @property
    def served(self) -> float:
        """Mean accuracy in %, where phones that may miss the limits count 0."""
        served = 0.0
        for tier, file in enumerate(self.files):
            served += self.share_of(tier) * file.accuracy_percent
        return served

    @property
    def worst(self) -> Assigned:
        """The phone that meets the budget with the least probability."""

        def rank(assigned: Assigned) -> tuple[float, float]:
            # Of equal probabilities, the slowest phone is the worst.
            return assigned.probability or 0.0, -(assigned.latency_ms or np.inf)

        return min(self.phones, key=rank)

    def share_of(self, tier: int) -> float:
        """Return the share of the known phones that get a file and meet the limits with it."""
        total = sum(assigned.phone.share for assigned in self.phones)
        share = 0.0
        for assigned in self.phones:
            if assigned.sure and assigned.tier == tier:
                share += assigned.phone.share
        return share / total

    @cached_property
    def sentence(self) -> str:
        """The option in words."""
        count = ("One file", "Two files", "Three files")[len(self.files) - 1]
        tiers = list[str]()
        for tier, file in reversed(list(enumerate(self.files))):
            share = text.whole_percent(self.share_of(tier))
            tiers.append(f"{file.accuracy_percent:.1f} % on {share}")
        late = 1 - self.sure_share
        # A sum of shares may miss 1 by a rounding error.
        floor = ""
        if late > 1e-9:
            floor = f", {text.whole_percent(late)} of the phones may be too slow and get the floor"
        return f"{count}: {', '.join(tiers)}{floor}; {show_bytes(self.bytes)} in all"


@dataclass(frozen=True)
class FleetAnswer:
    """The answer for a fleet.

    Attributes:
        options: the best one, two and three files; fewer if more files add nothing.
        recommended: place of the recommended option.
        reason: why this number of files.
        runner_up: the second best option, in words.
        flips: what would change the files.
        each_device: mean accuracy of a file for each phone, over the same phones, and how many
            files that takes.
        kept: share of the value of a file for each phone that each option keeps.
        notes: what was read or counted otherwise than written.
    """

    fleet: Fleet
    options: tuple[FleetOption, ...]
    recommended: int
    reason: str
    runner_up: str
    flips: tuple[str, ...]
    each_device: tuple[float, int]
    kept: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def option(self) -> FleetOption:
        """The recommended option."""
        return self.options[self.recommended]

    def with_files(self, count: int | None) -> FleetOption:
        """Return the option with so many files, or the largest; None: the recommended one."""
        if count is None:
            return self.option
        return self.options[min(count, len(self.options)) - 1]


def answer_for(fleet: Fleet, matrix: Matrix) -> FleetAnswer:
    """Choose the best one to three files for a fleet, and how many of them it needs.

    Each further file must be worth its price, :data:`POINTS_A_FILE`.
    """
    values = matrix.values()
    sets = list[tuple[int, ...]]()
    notes = list(fleet.notes)
    for count in range(1, MOST_FILES + 1):
        files = choose_files(values, count)
        # What phones get that no file serves (HARDLY) is no gain.
        if sets and not _adds_value(values, sets[-1], files):
            notes.append(
                f"no further file adds anything to {plural(count - 1, 'file')}, so {count} are not"
                " offered"
            )
            break
        sets.append(files)
    options = tuple(_make_option(matrix, files) for files in sets)
    order = sorted(
        range(len(options)), key=lambda place: POINTS_A_FILE * place - options[place].value
    )
    best = order[0]
    # The most that any number of files can give: the best file of each phone.
    best_files = values.argmax(axis=1)
    best_accuracies = matrix.accuracies[best_files]
    best_sure = matrix.sure()[np.arange(len(best_files)), best_files]
    mean_accuracy = float(matrix.shares @ best_accuracies)
    served = float(matrix.shares @ (best_accuracies * best_sure))
    value_shares = tuple(option.served / served if served else 1.0 for option in options)
    if not options[best].sure_share:
        notes.append(_note_floor(matrix, options[best]))
    return FleetAnswer(
        fleet,
        options,
        best,
        _explain_choice(options, best),
        _describe_runner_up(options, order),
        _find_flips(matrix, options, sets, best),
        (mean_accuracy, len(set(best_files.tolist()))),
        value_shares,
        tuple(notes),
    )


def _adds_value(values: Floats, fewer: tuple[int, ...], files: tuple[int, ...]) -> bool:
    """Return whether files are more than others, and serve the fleet better."""
    if len(files) <= len(fewer):
        return False
    return total_value(values, files) > total_value(values, fewer) + HARDLY


def _make_option(matrix: Matrix, files: tuple[int, ...]) -> FleetOption:
    """Return what files, columns of the matrix, do for the fleet."""
    ordered = sorted(files, key=lambda file: (matrix.accuracies[file], file))
    values = matrix.values()
    sure = matrix.sure()
    chances = matrix.chances()
    phones = []
    for place, phone in enumerate(matrix.phones):
        tier = int(np.argmax(values[place, ordered]))
        file = ordered[tier]
        prediction = matrix.rows[place][file]
        latency = prediction.latency
        is_sure = bool(sure[place, file])
        if latency is None:
            phones.append(Assigned(phone, tier, is_sure, reason=prediction.reason))
        else:
            chance = float(chances[place, file])
            phones.append(
                Assigned(phone, tier, is_sure, chance, latency.value, latency.low, latency.high)
            )
    tiers = [assigned.tier for assigned in phones]
    is_sure_of_phones = np.array([assigned.sure for assigned in phones], dtype=float)
    probabilities = np.array([assigned.probability or 0.0 for assigned in phones])
    return FleetOption(
        tuple(matrix.files[file] for file in ordered),
        tuple(phones),
        float(matrix.shares @ matrix.accuracies[ordered][tiers]),
        float(matrix.shares @ is_sure_of_phones),
        float(matrix.shares @ probabilities),
        total_value(values, tuple(ordered)),
    )


def _explain_choice(options: Sequence[FleetOption], best: int) -> str:
    """Return why this number of files, in words."""
    best_option = options[best]
    parts = []
    if best:
        fewer = options[best - 1]
        parts.append(f"the last file adds {_describe_gain(fewer, best_option)}")
    if best + 1 < len(options):
        parts.append(f"one more would add {_describe_gain(best_option, options[best + 1])}")
    elif not best:
        parts.append("no other file serves more phones, or serves them better")
    if not parts:
        return best_option.sentence
    return f"{best_option.sentence}: {'; '.join(parts)}"


def _describe_gain(fewer: FleetOption, more: FleetOption) -> str:
    points = more.accuracy - fewer.accuracy
    phones = more.sure_share - fewer.sure_share
    served = ""
    if abs(phones) >= 0.005:
        served = f" and {100 * phones:+.0f} % of the phones within the budget"
    return (
        f"{points:+.1f} points on average{served} for"
        f" {show_bytes(max(0.0, more.bytes - fewer.bytes))}"
    )


def _describe_runner_up(options: Sequence[FleetOption], order: Sequence[int]) -> str:
    if len(order) < 2:
        return ""
    first = options[order[0]]
    second = options[order[1]]
    behind = first.value - second.value + POINTS_A_FILE * (order[1] - order[0])
    prices = f"{show_bytes(BYTES_A_POINT)}, or two further files, count like a point"
    return f"{second.sentence} ({behind:.2f} points behind; {prices})"


def _find_flips(
    matrix: Matrix, options: Sequence[FleetOption], sets: Sequence[tuple[int, ...]], best: int
) -> tuple[str, ...]:
    """Return what would change the files: another price of a file, or another budget."""
    flips = list[str]()
    best_option = options[best]
    for place, option in enumerate(options):
        if place != best:
            price = (option.value - best_option.value) / (place - best)
            word = "less" if place > best else "more"
            flips.append(
                f"a further file counts like {word} than {price:.2f} points:"
                f" {plural(place + 1, 'file')}"
            )
    limit_ms = matrix.limits.latency_ms or 0.0
    counts = list(map(len, sets))
    # In each direction only the first budget that changes the answer is of use.
    for scales in OTHER_BUDGETS:
        for scale in scales:
            files = _choose_best_set(matrix.values(scale), counts)
            if set(files) != set(sets[best]):
                names = listed([text.file(matrix.files[file]) for file in files], MOST_FILES)
                flips.append(f"the latency budget is {show_ms(scale * limit_ms)}: {names}")
                break
    return tuple(flips)


def _choose_best_set(values: Floats, counts: Sequence[int]) -> tuple[int, ...]:
    """Return the best files of some numbers of files, where each file has its price."""
    sets = [choose_files(values, count) for count in counts]
    return max(sets, key=lambda files: total_value(values, files) - POINTS_A_FILE * len(files))


def _note_floor(matrix: Matrix, option: FleetOption) -> str:
    """Return in words what phones get if no file is sure to meet the limit on any of them."""
    chances = matrix.chances()
    file = int(np.argmax(matrix.shares @ chances))
    confidence = matrix.limits.confidence
    needed_ms = []
    for predictions in matrix.rows:
        distribution = predictions[file].latency_distribution
        if distribution is not None:
            needed_ms.append(distribution.at(confidence))
    slow = ""
    limit_ms = matrix.limits.latency_ms or 0
    budget = show_ms(limit_ms)
    if needed_ms:
        needed, budget = units.show_against("latency", limit_ms, max(needed_ms))
        slow = f"; its slowest phone needs a budget of {needed}"
    return (
        f"no file is sure to meet {budget} on any phone: the floor is"
        f" {text.file(option.files[0])}, which meets it on {show_probability(option.met_share)} of"
        f" the phones by expectation{slow}"
    )


@dataclass(frozen=True)
class _FleetQuestion:
    """A fleet and the files of a run; two that have the same ``key`` have the same answer."""

    key: str
    fleet: Fleet = field(compare=False)
    evaluations: tuple[Evaluation, ...] = field(compare=False)
    limits: Limits = field(compare=False)


@lru_cache(maxsize=2)
def _answer_once(question: _FleetQuestion) -> FleetAnswer:
    return answer_for(
        question.fleet, predict_matrix(question.fleet, question.evaluations, question.limits)
    )


def fleet_answer(question: Question, evaluations: Sequence[Evaluation]) -> FleetAnswer:
    """Return the answer of a run for the fleet of its question; several reports of it share one.

    Raises:
        UsageError: the fleet cannot be read.
        StageError: no file can be chosen.
    """
    fleet = read_fleet(question.fleet, question.profiles)
    files = list[tuple[str, str, float]]()
    for evaluation in one_each(evaluations):
        files.append(
            (evaluation.configuration.key, evaluation.artefact_sha256, evaluation.accuracy_percent)
        )
    # Profiles are files of the user's own, which may change between two reports of one process.
    devices = []
    for phone in fleet.known:
        if phone.device:
            devices.append(phone.device.profile.fingerprint())
    limits: Mapping[str, object] = vars(question.limits)
    key = json.dumps([question.fleet, devices, files, repr(limits)], default=str)
    return _answer_once(_FleetQuestion(key, fleet, tuple(evaluations), question.limits))
