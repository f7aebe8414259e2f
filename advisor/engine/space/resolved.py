"""Find and check all parts of a question once, for a search and for its preview."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import Catalogue, load_catalogue
from advisor.catalog.user_models.import_model import is_file, shipped_card
from advisor.catalog.weights.fetching import all_missing
from advisor.compression.recipes import Recipe
from advisor.core.errors import WeightsError
from advisor.core.training import HEAD_SUBSET
from advisor.downloads.files import FetchOptions, WeightsFile
from advisor.engine.pipeline.materials import Images, Materials, Workload
from advisor.engine.pipeline.stage import StageName
from advisor.engine.pipeline.stages.figures import effort_for
from advisor.engine.question import Execution, Question, Request, require_sampler_installed
from advisor.engine.space.candidates import (
    Candidates,
    chosen_cards,
    chosen_recipes,
    names_networks,
    read_images,
    require_known_classes,
    runtime_version,
)
from advisor.engine.space.plan import Plan
from advisor.engine.targets.target_devices import TargetDevices, select_targets
from advisor.measurement import host
from advisor.measurement.host import Host
from advisor.store import ArtifactCache

AS_IT_IS = "is judged as it is, not trained; its figures are too high if it has learnt from your images"
"""Remark on a user's own detector or finished file among the candidates."""

DOWNLOADS = 4

Say = Callable[[str], None]


@dataclass(frozen=True)
class Resolved:
    """A question with all its parts, found and checked before any work starts.

    Attributes:
        request: the question, and how it is answered.
        catalogue: every card that there is.
        targets: the devices.
        recipes: compression recipes by name.
        cards: the candidates, the most promising first.
        images: the user's images, or None.
    """

    request: Request
    catalogue: Catalogue
    targets: TargetDevices
    recipes: Mapping[str, Recipe]
    cards: tuple[Card, ...]
    images: Images | None = None

    @property
    def question(self) -> Question:
        """The question."""
        return self.request.question

    @property
    def execution(self) -> Execution:
        """The settings of how the search runs."""
        return self.request.execution

    @property
    def names_networks(self) -> bool:
        """True if the user named cards to try."""
        return names_networks(self.question, self.catalogue)

    @property
    def cards_to_try(self) -> int:
        """Number of cards that are tried: all if the user named networks; finished files always."""
        finished = sum(bool(card.form) for card in self.cards)
        return len(self.cards) if self.names_networks else finished + self.question.of_task.cards

    @property
    def trainings(self) -> tuple[str, ...]:
        """The training recipes, the lightest first: a large set gets a first look at some of it."""
        first_look = self.images is not None and self.images.large and self.question.of_task.labelled
        return (HEAD_SUBSET, *self.question.trainings) if first_look else self.question.trainings

    def plan(self, candidates: Candidates, pace: Mapping[StageName, float] | None = None) -> Plan:
        """Return the search space of cards that have weights; see :class:`Plan` for ``pace``.

        A time limit of the search alone limits the fine-tuning of a default search.
        """
        question, images, targets = self.question, self.images, self.targets
        workload = Workload(
            self.trainings,
            tuple(self.recipes),
            images.counts if images else {},
            question,
            own_holdout=images is not None and images.own_holdout,
            local_targets=tuple(filter(None, (device.local for device in targets.devices))),
        )
        return Plan(
            candidates.cards,
            workload,
            runtime_version(),
            pace or {},
            lead=targets.lead.identity if targets.lead else None,
            cores=self.execution.cores,
            tuning_limited=question.tuning_limited and self.execution.time_limit_s is None,
            names_networks=self.names_networks,
        )

    def materials(
        self, weights: Mapping[str, WeightsFile | None], configurations: int, machine: Host | None = None
    ) -> Materials:
        """Return the materials of the stages of a search.

        Args:
            weights: weights file of each card by name; None for fixed-seed random weights.
            configurations: size of the search space: files of a large one are timed briefly first.
            machine: the machine that measures, this one by default.
        """
        machine, effort = machine or host.describe(), effort_for(configurations)
        return Materials(ArtifactCache(), self.images, weights, machine, self.question, effort)


def resolve_parts(request: Request, say: Say) -> Resolved:
    """Find and check all parts of a question.

    Raises:
        UsageError: a part is missing, unknown or damaged, or a package that it needs is not installed.
    """
    require_sampler_installed(request.execution.sampler)
    found = resolve_cards(request)
    images = read_images(request.question, say)
    require_known_classes(request.question, found.cards, images)
    return replace(found, images=images)


def resolve_cards(request: Request) -> Resolved:
    """Find all parts of a question but its images, which take longest.

    Raises:
        UsageError: a part is missing, unknown or damaged.
    """
    question = request.question
    targets, recipes, catalogue = select_targets(question), chosen_recipes(question), load_catalogue(question.catalog)
    return Resolved(request, catalogue, targets, recipes, chosen_cards(question, catalogue, targets))


def find_weights(resolved: Resolved, say: Say) -> Candidates:
    """Fetch the weights of the cards, several at a time: of all that the user named, else of the first ones.

    A card without weights stays a candidate if the user named it and gave no images: latency, memory and operators
    do not depend on weights.

    Raises:
        WeightsError: no card is left.
    """
    from advisor.catalog.weights.fetching import fetch

    cards, at_most = resolved.cards, resolved.cards_to_try
    options = FetchOptions(offline=resolved.execution.offline, mirror=resolved.execution.mirror)

    def get(card: Card) -> WeightsFile | WeightsError:
        try:
            say(f"fetching weights of {card.name}")
            if card.as_it_is:
                say(f"{card.name} {AS_IT_IS}")
            return fetch(card, options)
        except WeightsError as error:
            return error

    weights: dict[str, WeightsFile | None] = {}
    errors: dict[str, WeightsError] = {}
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        for start in range(0, len(cards), DOWNLOADS):
            group = cards[start : start + DOWNLOADS]
            for card, found in zip(group, pool.map(get, group), strict=True):
                if isinstance(found, WeightsError):
                    errors[card.name] = found
                else:
                    weights[card.name] = found
            if len(weights) >= at_most:
                break
    if resolved.question.candidates and resolved.question.data is None:
        weights.update(dict.fromkeys(errors))
    if not weights:
        raise all_missing(errors, options) if len(errors) > 1 else next(iter(errors.values()))
    return Candidates(
        cards=tuple(card for card in cards if card.name in weights)[:at_most],
        weights=weights,
        missing={name: error.message for name, error in errors.items()},
    )


def with_files(request: Request) -> Request:
    """Return a request whose candidates are names of cards: each file is one, in a catalogue of its own.

    Raises:
        UsageError: a file is missing or cannot take part.
    """
    question = request.question
    names, catalogs = list[str](), list(question.catalog)
    for candidate in question.candidates:
        if not is_file(candidate):
            names.append(candidate)
            continue
        card, catalogue = shipped_card(Path(candidate), question.catalog)
        names.append(card.name)
        catalogs.append(catalogue)
    if len(catalogs) == len(question.catalog):
        return request
    written = {**request.written, "candidates": names, "catalog": [str(path) for path in catalogs]}
    changed = replace(question, candidates=tuple(names), catalog=tuple(dict.fromkeys(catalogs)))
    return replace(request, question=changed, written=written)
