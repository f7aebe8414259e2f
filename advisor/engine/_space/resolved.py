"""Find and check all parts of a question once, before anything is spent:
recipes, devices, cards, images, weights.
"""

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from advisor.catalog import (
    SUFFIX,
    Card,
    Catalogue,
    all_missing,
    load_catalogue,
    make_shipped_card,
    read_published_labels,
)
from advisor.compression import RECIPES, Needs, Recipe
from advisor.core import (
    FLOAT,
    HEAD_SUBSET,
    LOCAL,
    Sampler,
    UsageError,
    WeightsError,
    WeightsFile,
    install_extra,
    nearest,
    plural,
    show_bytes,
)
from advisor.datasets import address_of, class_order, expect_parts
from advisor.downloads import FetchOptions
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.cost_model import CostModel
from advisor.engine._pipeline.images import (
    CAPTURED_IMAGES,
    LARGE,
    SUBSET_IMAGES,
    TUNED_IMAGES,
    Images,
    Role,
)
from advisor.engine._pipeline.materials import Materials, Workload
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import StageName
from advisor.engine._pipeline.stages.figures import effort_for
from advisor.engine._question import Execution, Question, Request
from advisor.engine._space.failed_downloads import note_failures
from advisor.engine._space.plan import Plan, most_promising_first
from advisor.engine._space.question_images import Say, read_images
from advisor.engine._space.twice_scaled import Example, scale_warning
from advisor.engine._targets.device_prediction import card_rejection
from advisor.engine._targets.target_devices import TargetDevices, select_targets
from advisor.measurement import Host, host
from advisor.store import ArtifactCache

DEFAULT_RECIPES = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")
# Tried if ``--max-drop`` is given, where lighter compressions lose more.
HEAVIER_RECIPES = ("mixed_int8", "qat_int8")

RUNTIME = "ai-edge-litert"

AS_IT_IS = (
    "is judged as it is, not trained; its figures are too high if it has learnt from your images"
)
"""Remark on a user's own detector or finished file among the candidates."""

DOWNLOADS = 4

WITH_TENSORFLOW = (Pool.HEAVY, Pool.TRAINERS)

SAMPLE_SHARE = 0.75
HEADS = 3
READING_IMAGE_S = 0.004
"""Share of a time limit that the work on the drawn images may take, heads that a search is
expected to train in it, and CPU seconds of reading an image before. An AMD EPYC takes 1 ms for
JPEGs of 160 pixels a side, 2 ms for 1,280, and 24 ms for 4,000 x 3,000.
"""

FLOAT_BYTES = 4  # Of a parameter in the largest form of a network

TO_IMPORT = (".keras", ".onnx", ".pt2")
"""Endings of users' files that ``advisor catalog add`` makes a card of."""


@dataclass(frozen=True)
class Candidates:
    """Cards that can be tried, the most promising first, with their weights by name,
    None for fixed-seed random ones.

    ``missing`` says of other cards why their weights cannot be fetched.
    """

    cards: tuple[Card, ...]
    weights: Mapping[str, WeightsFile | None]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class Resolved:
    """A question with all its parts:
    the catalogue, and the candidates that it chose, the most promising first.
    """

    request: Request
    catalogue: Catalogue
    targets: TargetDevices
    recipes: Mapping[str, Recipe]
    cards: tuple[Card, ...]
    images: Images | None = None
    remarks: tuple[str, ...] = ()

    @property
    def question(self) -> Question:
        """The question."""
        return self.request.question

    @property
    def execution(self) -> Execution:
        """The settings of how the search runs."""
        return self.request.execution

    @property
    def runtime(self) -> str:
        """The runtime that measures, with its version."""
        return f"{RUNTIME}=={version(RUNTIME)}"

    @property
    def cards_to_try(self) -> int:
        """Number of cards that are tried: all if the user named networks; finished files
        always.
        """
        if names_networks(self.question, self.catalogue):
            return len(self.cards)
        return sum(bool(card.form) for card in self.cards) + self.question.of_task.cards

    @property
    def trainings(self) -> tuple[str, ...]:
        """The training recipes, the lightest first: a large set gets a quick head on some of
        it.
        """
        # On a large set, a quick head on some of the images shows
        # which cards are worth a head on all of them.
        quick_head = (
            self.images is not None and self.images.large and self.question.of_task.labelled
        )
        return (HEAD_SUBSET, *self.question.trainings) if quick_head else self.question.trainings

    def plan(self, candidates: Candidates, pace: Mapping[StageName, float] | None = None) -> Plan:
        """Return the search space of cards that have weights; ``pace``:
        seconds of stages over the expected ones.
        """
        question = self.question
        images = self.images
        targets = self.targets
        workload = Workload(
            self.trainings,
            tuple(self.recipes),
            images.counts if images else {},
            question,
            own_holdout=images is not None and images.own_holdout,
            local_targets=tuple(filter(None, (device.local for device in targets.devices))),
            classes=len(images.classes) if images else 2,
        )
        return Plan(
            candidates.cards,
            workload,
            self.runtime,
            pace or {},
            lead=targets.lead.identity if targets.lead else None,
            cores=self.execution.cores,
        )

    def materials(
        self, candidates: Candidates, plan: Plan, machine: Host | None = None
    ) -> Materials:
        """Return the materials of the stages, which ``machine`` measures.
        Files of a large plan are timed briefly.
        """
        machine = machine or host.describe()
        effort = effort_for(plan.size)
        return Materials(
            ArtifactCache(), self.images, candidates.weights, machine, self.question, effort
        )


def resolve_parts(request: Request, say: Say) -> Resolved:
    """Find and check all parts of a question;
    refuse one that is missing, unknown or damaged, or not installed.
    """
    if request.execution.sampler == Sampler.GP and find_spec("torch") is None:
        raise UsageError(
            "--sampler: 'gp' is Optuna's Gaussian process, which needs PyTorch, and PyTorch is not"
            " installed",
            f"{install_extra('gp')}, or use --sampler advisor",
        )
    resolved = within_time_limit(resolve_cards(request))
    question = resolved.question
    _require_leave(resolved)
    images = read_images(question, say, request.execution)
    require_known_classes(question, resolved.cards, images)
    if images is not None:
        _require_sendable(request.execution, images)
    remarks = own_file_remarks(resolved.cards, images)
    for remark in remarks:
        say(remark)
    return replace(resolved, images=images, remarks=remarks)


def _require_leave(resolved: Resolved) -> None:
    """Refuse to send files to a device cloud without leave:
    UsageError with the most files, and the largest.
    """
    for device in resolved.targets.in_cloud:
        if resolved.execution.upload or not resolved.cards:
            continue
        files = resolved.cards_to_try * len(resolved.recipes) * len(resolved.trainings)
        largest = max(FLOAT_BYTES * card.params for card in resolved.cards)
        raise UsageError(
            f"--device: up to {plural(files, 'file')} of at most {show_bytes(largest)} each would"
            f" be sent to the cloud of {device.label}; no image would be",
            "allow it with --upload, or name the device without its cloud for a prediction",
        )


def own_file_remarks(cards: Sequence[Card], images: Images | None) -> tuple[str, ...]:
    """Return a warning of each user's own file whose input is scaled twice,
    tried on images for training.
    """
    examples: list[Example] = []
    if images is not None:
        places = images.split.train or range(len(images.dataset.images))
        chosen = [images.dataset.images[place] for place in places]
        examples = [(image.path, images.classes[image.label]) for image in chosen]
    warnings = {card.name: scale_warning(card, examples) for card in cards}
    return tuple(f"{name}: {warning}" for name, warning in warnings.items() if warning)


def require_installed(request: Request) -> None:
    """Refuse a search of which a stage needs TensorFlow where it is not installed:
    UsageError with a hint.

    Heads of classifiers and most compressions need none, nor do cards with a graph file.
    """
    if find_spec("tensorflow") is not None:
        return
    resolved = resolve_cards(request)
    images = dict.fromkeys(Role, LARGE) if resolved.question.data is not None else {}
    # The images are not read yet. Which stages there are does not depend on how many there are.
    costs = CostModel(
        Workload(resolved.question.trainings, tuple(resolved.recipes), images, resolved.question)
    )
    for card in resolved.cards:
        needy = next(
            (stage for stage in costs.stages(card) if stage.resources.pool in WITH_TENSORFLOW),
            None,
        )
        if needy is None:
            continue
        # One is enough: the stages of all cards take two seconds.
        raise UsageError(
            f"a search needs TensorFlow, which is not installed, for {needy.subject}",
            f"{install_extra('train')}; or train heads of classifiers alone, which needs none:"
            " --training head",
        )


def within_time_limit(resolved: Resolved) -> Resolved:
    """Return the question with the most images that its time limit leaves time for;
    a resumed run keeps its own number.

    So many images leave time for heads, one fine-tuning and the hold-out, for the card with the
    median MACs: fine-tuning on some images gains more than a head that has learnt from all.
    :data:`LARGE` images are always read.
    """
    limit_s = resolved.execution.time_limit_s
    question = resolved.question
    if (
        limit_s is None
        or question.data is None
        or question.most_images is not None
        or not resolved.cards
    ):
        return resolved
    card = sorted(resolved.cards, key=lambda card: card.macs)[len(resolved.cards) // 2]
    # The cost is taken as linear in the images, so two sizes give the number that fills the limit.
    few, many = (_sample_s(resolved, card, images) for images in (LARGE, 2 * LARGE))
    most = LARGE + max(0, round((SAMPLE_SHARE * limit_s - few) / (many - few) * LARGE))
    return replace(
        resolved, request=replace(resolved.request, question=replace(question, most_images=most))
    )


def _sample_s(resolved: Resolved, card: Card, images: int) -> float:
    """Return the seconds by the clock that a search with so many images takes for one card."""
    calibration = CostCalibration()
    question = resolved.question
    cores = resolved.execution.cores
    compared, judged = expect_parts(images)
    counts = dict.fromkeys(Role, images) | {
        Role.LEARNT: images - judged,
        Role.TRAIN: images - judged - compared,
        Role.VALIDATION: compared,
        Role.TUNED: min(images - judged, TUNED_IMAGES + compared),
        Role.HOLDOUT: judged,
        Role.SUBSET: SUBSET_IMAGES,
        Role.CAPTURED: CAPTURED_IMAGES,
    }
    workload = Workload(question.trainings, tuple(resolved.recipes), counts, question)
    costs = CostModel(workload, calibration.pace)
    graphs = (costs.stages(card, [(training, FLOAT)]) for training in question.trainings)
    seconds = [costs.chain_s(stages, cores, calibration.wall) for stages in graphs]
    # One fine-tuning is the longest chain, and the other heads are the shortest ones.
    return READING_IMAGE_S * images / cores + max(seconds) + (HEADS - 1) * min(seconds)


def _require_sendable(execution: Execution, images: Images) -> None:
    """Refuse images inside other files for other machines that do not see these files:
    only whole files are sent.
    """
    if execution.executor == LOCAL or execution.shared_folder is not None:
        return
    # A path inside a zip or a table is no file, so it cannot be sent as one.
    inside = next(filter(None, (address_of(image.path) for image in images.dataset.images)), None)
    if inside is not None:
        raise UsageError(
            f"--executor: images inside '{inside.file}' cannot be sent to other machines",
            "put the file where all machines see it, and name the folder with --shared-folder",
        )


def resolve_cards(request: Request) -> Resolved:
    """Find all parts of a question but its images, which take longest."""
    question = request.question
    recipes = choose_recipes(question)
    targets = select_targets(question).allow_upload(request.execution)
    catalogue = load_catalogue(question.catalog)
    return Resolved(
        request, catalogue, targets, recipes, choose_cards(question, catalogue, targets)
    )


def with_files(request: Request) -> Request:
    """Return a request whose candidates are names of cards:
    each file is one, in its own catalogue, or is refused.
    """
    question = request.question
    names = list[str]()
    catalogs = list(question.catalog)
    for candidate in question.candidates:
        if candidate.endswith(TO_IMPORT):
            raise UsageError(
                f"--candidates: '{candidate}' is a model to retrain, which needs a card",
                f"make one: advisor catalog add {candidate}; it says how to search with the card",
            )
        if not candidate.endswith(SUFFIX):
            names.append(candidate)
            continue
        card, catalogue = make_shipped_card(Path(candidate), question.catalog, question.task)
        names.append(card.name)
        catalogs.append(catalogue)
    # No candidate is a file, so the request stays as the user wrote it.
    if len(catalogs) == len(question.catalog):
        return request
    written = {**request.written, "candidates": names, "catalog": list(map(str, catalogs))}
    changed = replace(question, candidates=tuple(names), catalog=tuple(dict.fromkeys(catalogs)))
    return replace(request, question=changed, written=written)


def recipe_applies(recipe: Recipe, question: Question) -> bool:
    """Return whether a compression recipe can use the images of the question's task,
    or needs none.
    """
    task = question.of_task
    return {Needs.SCORING: task.labelled, Needs.TRAINING: task.retrains}.get(recipe.needs, True)


def choose_recipes(question: Question) -> dict[str, Recipe]:
    """Return the compression recipes of the question. float32 is always among them:
    the others are compared with it.
    """
    limited = bool(question.limits.drops)
    known = {recipe.name: recipe for recipe in RECIPES if recipe_applies(recipe, question)}
    heavier = HEAVIER_RECIPES if question.data is not None and limited else ()
    names = question.compressions or (
        *DEFAULT_RECIPES,
        *(name for name in heavier if name in known),
    )
    for name in names:
        if name not in known:
            raise UsageError(
                f"--compressions: unknown '{name}'{nearest(name, known)}",
                f"recipes: {', '.join(known)}",
            )
    return {name: known[name] for name in dict.fromkeys(("float32", *names))}


def choose_cards(
    question: Question, catalogue: Catalogue, targets: TargetDevices
) -> tuple[Card, ...]:
    """Return the cards of the question, by default backbones that name a source of weights,
    the most promising first.

    A user's own file is a card of one task; a search for another one leaves it out unless the user
    names it. Finished files come first. If the user names nothing else, the other cards are those
    of a search without names. Cards of which no file may fit on a device are left out where this
    machine is no device, if others are left; so are those without a graph file, or with weights of
    Keras alone, where TensorFlow is not installed.
    """
    side = question.of_task.side
    names = names_networks(question, catalogue)
    named = catalogue.select(question.candidates) if names else ()
    # What a start from a whole network gains is not shown yet, and it trains longer.
    cards = list(named)
    if not cards:
        for card in catalogue.values():
            if card.weights and not card.whole:
                cards.append(card)
    others = [card for card in cards if card.task not in ("", question.task)]
    for card in others:
        # A pattern may match files for several tasks,
        # and then the others are left out without a word.
        if card.name in question.candidates or len(others) == len(cards):
            raise UsageError(
                f"--candidates: {card.name} is a file for {card.task}, and the search is for"
                f" {question.task}",
                f"add --task {card.task}, or leave it out",
            )
    cards = [card for card in cards if card not in others]
    if side:
        sized = [card.at(side) for card in cards]
        # A graph that is a file has one side. A user's own detector keeps its own, and a whole
        # network that of its training unless the question names another.
        cards = []
        for card in sized:
            keeps_side = card.own_file or (card.whole and not question.input_size)
            if keeps_side or card.input_size == side:
                cards.append(card)
        if not cards:
            raise UsageError(
                f"--candidates: {sized[0].name} takes images of {sized[0].input_size} pixels only,"
                f" this task {side}",
                "name networks whose graph is no file: see `advisor catalog show NAME`",
            )
    if not names and find_spec("tensorflow") is None:
        # Graph files become float files without it.
        # It brings the package that reads the weights of Keras.
        convertible = []
        for card in cards:
            if card.readable_sources and not card.needs_converter:
                convertible.append(card)
        cards = convertible or cards
    if not names and not targets.host:
        pairs = list(product(choose_recipes(question), targets.devices))
        runnable = []
        for card in cards:
            if any(not card_rejection(card, *pair) for pair in pairs):
                runnable.append(card)
        cards = runnable or cards
    # The phones of a fleet need small and large networks.
    ordered = most_promising_first(
        cards, spread=bool(question.fleet) or not question.of_task.published
    )
    return tuple(sorted(ordered, key=lambda card: not card.form))


def names_networks(question: Question, catalogue: Catalogue) -> bool:
    """Return whether the user named cards to try;
    finished files alone leave the usual ones in the search.
    """
    return any(not card.form for card in catalogue.select(question.candidates))


def require_known_classes(
    question: Question, cards: Sequence[Card], images: Images | None
) -> None:
    """Refuse a finished file that the user named and that does not know the classes of the
    images.
    """
    for card in cards:
        if images is None or not card.form or card.name not in question.candidates:
            continue
        labels = read_published_labels(card)
        try:
            class_order(images.classes, labels, len(labels))
        except UsageError as error:
            message = error.message.removeprefix("--data: ")
            raise UsageError(f"--candidates: {card.name}: {message}", error.hint) from None


def find_weights(resolved: Resolved, say: Say, ends_at: float = math.inf) -> Candidates:
    """Fetch the weights of the cards, several at a time:
    of all that the user named, else of the first ones.

    A card without weights stays a candidate if the user named it and gave no images: latency,
    memory and operators do not depend on weights. Downloads end at ``ends_at`` of the monotonic
    clock. WeightsError: no card is left.
    """
    from advisor.catalog import fetch_weights

    cards = resolved.cards
    at_most = resolved.cards_to_try
    options = FetchOptions(
        offline=resolved.execution.offline, mirror=resolved.execution.mirror, ends_at=ends_at
    )

    def get(card: Card) -> WeightsFile | WeightsError:
        try:
            say(f"fetching weights of {card.name}")
            if card.is_finished:
                say(f"{card.name} {AS_IT_IS}")
            return fetch_weights(card, options)
        except WeightsError as error:
            return error

    weights: dict[str, WeightsFile | None] = {}
    errors: dict[str, WeightsError] = {}
    # The download ends at the same moment, and what has arrived is kept for the next command.
    late = WeightsError("its weights did not arrive within the time limit", "give it more time")
    pool = ThreadPoolExecutor(DOWNLOADS)
    try:
        for start in range(0, len(cards), DOWNLOADS):
            jobs = {card.name: pool.submit(get, card) for card in cards[start : start + DOWNLOADS]}
            left_s = None if math.isinf(ends_at) else max(0.0, ends_at - time.monotonic())
            done, _late = wait(jobs.values(), left_s)
            for name, job in jobs.items():
                outcome = job.result() if job in done else late
                if isinstance(outcome, WeightsError):
                    errors[name] = outcome
                else:
                    weights[name] = outcome
            # Rounds of DOWNLOADS cards: the next ones are asked only
            # if some of these have no weights.
            if len(weights) >= at_most or time.monotonic() >= ends_at:
                break
    finally:
        # Not a `with` block, which would wait for the downloads that the limit has left behind.
        pool.shutdown(wait=False, cancel_futures=True)
    if not options.offline:
        note_failures([name for name, error in errors.items() if error is not late], weights)
    if resolved.question.candidates and resolved.question.data is None:
        weights.update(dict.fromkeys(errors))
    if not weights and time.monotonic() >= ends_at:
        raise WeightsError(
            "no weights arrived within the time limit",
            "run the command again: what has arrived is kept; or first: advisor catalog fetch",
        )
    if not weights:
        raise all_missing(errors, options) if len(errors) > 1 else next(iter(errors.values()))
    chosen = tuple(card for card in cards if card.name in weights)[:at_most]
    return Candidates(chosen, weights, {name: error.message for name, error in errors.items()})
