"""Find and check all parts of a question once, before anything is spent: recipes, devices, cards
and images.

``_preparation.py`` calls :func:`resolve_parts` for a search, and the preview calls it for a plan.
Each check refuses with a UsageError that names the option. What :func:`resolve_cards` finds needs
no image, so it is fast.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from advisor.catalog import (
    Card,
    Catalogue,
)
from advisor.core import (
    LOCAL,
    Sampler,
    UsageError,
    install_extra,
    plural,
    show_bytes,
)
from advisor.datasets import address_of
from advisor.engine._pipeline.cost_model import CostModel
from advisor.engine._pipeline.images import (
    LARGE,
    Images,
    Role,
)
from advisor.engine._pipeline.materials import Workload
from advisor.engine._pipeline.resources import Pool
from advisor.engine._question import Execution, Request
from advisor.engine._space.candidates import choose_cards, require_known_classes
from advisor.engine._space.image_limit import within_time_limit
from advisor.engine._space.question_images import Say, read_images
from advisor.engine._space.recipes import choose_recipes
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.twice_scaled import Example, scale_warning
from advisor.engine._targets.target_devices import select_targets
from advisor.store import RunFolder

WITH_TENSORFLOW = (Pool.HEAVY, Pool.TRAINERS)

FLOAT_BYTES = 4  # Of a parameter in the largest form of a network


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
    _require_upload_leave(resolved)
    require_heads(question.start)
    images = read_images(question, say, request.execution)
    require_known_classes(question, resolved.cards, images)
    if images is not None:
        _require_sendable(request.execution, images)
    remarks = own_file_remarks(resolved.cards, images)
    for remark in remarks:
        say(remark)
    return replace(resolved, images=images, remarks=remarks)


def require_heads(start: Path | None) -> None:
    """Refuse an earlier run without a head that a training could start from."""
    if start is not None and not RunFolder.open(start).heads:
        raise UsageError(
            f"--start: '{start}' has no heads of detectors",
            "name a run of object-detection by this version, such as runs/latest",
        )


def _require_upload_leave(resolved: Resolved) -> None:
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
        for place in places:
            image = images.dataset.images[place]
            examples.append((image.path, images.classes[image.label]))
    remarks = []
    for card in cards:
        warning = scale_warning(card, examples)
        if warning:
            remarks.append(f"{card.name}: {warning}")
    return tuple(remarks)


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
        for stage in costs.stages(card):
            if stage.resources.pool in WITH_TENSORFLOW:
                # One is enough: the stages of all cards take two seconds.
                raise UsageError(
                    f"a search needs TensorFlow, which is not installed, for {stage.subject}",
                    f"{install_extra('train')}; or train heads of classifiers alone, which needs"
                    " none: --training head",
                )


def _require_sendable(execution: Execution, images: Images) -> None:
    """Refuse images inside other files for other machines that do not see these files:
    only whole files are sent.
    """
    if execution.executor == LOCAL or execution.shared_folder is not None:
        return
    # A path inside a zip or a table is no file, so it cannot be sent as one.
    for image in images.dataset.images:
        address = address_of(image.path)
        if address is not None:
            raise UsageError(
                f"--executor: images inside '{address.file}' cannot be sent to other machines",
                "put the file where all machines see it, and name the folder with --shared-folder",
            )


def resolve_cards(request: Request) -> Resolved:
    """Find all parts of a question but its images, which take longest."""
    question = request.question
    recipes = choose_recipes(question)
    targets = select_targets(question).allow_upload(request.execution)
    catalogue = Catalogue.load(question.catalog)
    cards = choose_cards(question, catalogue, targets)
    return Resolved(request, catalogue, targets, recipes, cards)
