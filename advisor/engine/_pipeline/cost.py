"""Price each stage of a search: rough seconds of work on a reference machine.

A price is CPU seconds of all cores together. Only the prices of timings (:data:`TIMING_S`,
:data:`RUNTIME_S`) are seconds by the clock, because a timing has the machine alone. The modules of
``stages/`` give the price to their stage as ``cost_s``; ``cost_calibration.py`` corrects it by
what stages took here. The figures order candidates and price plans: they are no part of a cache
key (:func:`feature_parts` alone is), so you may change them. They never filter, and they are never
shown as a latency.
"""

from collections.abc import Mapping

from advisor.catalog import Card
from advisor.core import form_of, recipe_of
from advisor.engine._pipeline.stage import StageName

GMACS_PER_SECOND = 90.0
MOBILENET_V2_MACS = 300_000_000
"""Multiply-accumulates a second of one core, in 10^9: MobileNetV2 1.0 224 (0.3 GMACs) runs in 3.35
ms float32 in LiteRT 2.3 with XNNPACK on an AMD EPYC.
"""

CONVERT_S = 4.2
FILL_S = 0.6
HEAD_S = 2.2
EXPECTATION_S = 0.5
ADJUST_S = 1.2
REFIT_S = 0.6
REWRITE_S = 0.2
TIMING_S = 1.4
EXPORT_S = 8.0
RUNTIME_S = 4.0
ARENA_S = 3.0
"""CPU seconds that the stages took on an AMD EPYC with MobileNetV2; of ``TIMING_S`` and
``RUNTIME_S``, seconds by the clock.
"""

LABELS_S = 3.0
LABELS_IMAGE_S = 0.0025
LABELS_STEP_S = 1.5e-10
"""CPU seconds of checking labels: imports, opening images that may be crops, and a ridge
regression on landmarks. 1,416 images of TrashNet took 6.9 CPU seconds on an AMD EPYC; 6,000 rows
of features with 3,000 landmarks took 8.5.
"""

EXPORT_BYTES = 1_200_000_000  # Memory of the converter to ONNX and its libraries

CALIBRATE_AGAIN_S = 1.7
CALIBRATE_LAYERS_S = 5.5
CALIBRATE_POWER = 0.75
"""CPU seconds of calibrating MobileNetV2 for all its forms where only its head is new, and how
many more where all its layers are; the power of the arithmetic with which both grow. Nine networks
took 1.4 (MobileNetV1 0.25) to 56 (Inception V3) for all layers on an AMD EPYC. These figures give
seven of them within a factor of 1.35, MobileNetV1 1.9 times and SqueezeNet 2.6 times too much.
"""

COMPRESS_S: Mapping[str, float] = {
    "float16": 0.9,
    "weight_int8": 0.8,
    "dynamic_int8": 0.8,
    "int8": 0.5,
    "mixed_int8": 53.0,
    "qat_int8": 127.0,
    "pruned_50": 129.0,
    "pruned_75": 125.0,
    "clustered_16": 122.0,
}
"""CPU seconds of a compression recipe on MobileNetV2, after its calibration
(``benchmarks/results/compression.md``, where recipes that train weights were limited to 120 s).
``int8`` is of the searches that gave the seconds of calibrating.
"""

READ_START_S = 0.5
FINETUNE_START_S = 20.0
DETECTOR_START_S = 15.0
"""CPU seconds before the first image: a child process and its imports;
for fine-tuning also the graph, its compilation and its conversion.
"""

# Runs in LiteRT that a cached map takes: the lower layers, and reading and changing the image.
MAP_PASSES = 2.0

READING = 2.3  # CPU seconds of features over those of the network alone: images are read

READ_IMAGE_S = 0.0013
"""CPU seconds of reading an image to score it: MobileNetV2's answers took 1.4 times the CPU
seconds of the network alone. MobileNetV1 0.25 takes a third of this.
"""

# Tests of robust accuracy, and CPU seconds that one change of an image takes.
# Seven conditions at two strengths each, see datasets/_capture.py.
CAPTURE_TESTS = 14
CAPTURE_S = 0.0012

DETECTOR_MAPS = 9.0
DETECTOR_IMAGE_S = 0.24
DETECTOR_TUNING = 60.0
DETECTOR_TUNING_ALL = 260.0
"""Runs in LiteRT of a detector's maps, with reading and changing the image; CPU seconds of all
epochs of its head for an image; runs in LiteRT of all epochs of a backbone of which some layers
learn too, or all. BCCD's 205 training images took MobileNetV2 at 320 pixels 55, 150 and 434 CPU
seconds on an Intel Xeon of 2.8 GHz; all layers take 2.3 times as long as some (decision 0126).
"""

PHOTOGRAPHS = 85  # Crops of the bundled photographs, on which files are compared without images
# The key of features has the bounds of their part: other numbers here let each set be read anew.
FEATURE_PARTS = 2  # Least number of parts in which more than a few images are read
FEW_IMAGES = 200  # Images that are read in one part
IMAGES_A_PART = 2000  # Most images of a part: an interrupt loses one part

TRAINING_WALL = 0.6
"""Seconds by the clock of a CPU second of fine-tuning on two cores or more,
before one was seen on this machine.
"""


def head_s(images: int, classes: int) -> float:
    """Return the CPU seconds of choosing and fitting a head:
    2.2 for TrashNet's 1,416 images of six classes.

    They grow with the images, and with the classes to the power of 0.4: groceries, 2,640 images of
    81 classes, took 2.6 times as long an image. 320 images took 0.3 to 0.6 seconds with seven
    networks.
    """
    factor_of_images = min(max(0.2, images / 1416), 6.0)
    factor_of_classes: float = max(1.0, classes / 6) ** 0.4
    return HEAD_S * factor_of_images * factor_of_classes


def calibrating_s(macs: int, layers: float) -> float:
    """Return the CPU seconds of calibrating a file, of whose layers a share (0-1) is new.

    A file without known MACs has the price of MobileNetV2.
    """
    mobilenet_v2_s = CALIBRATE_AGAIN_S + layers * CALIBRATE_LAYERS_S
    relative_macs = (macs or MOBILENET_V2_MACS) / MOBILENET_V2_MACS
    return mobilenet_v2_s * float(relative_macs**CALIBRATE_POWER)


def reading_s(card: Card, images: int) -> float:
    """Return the CPU seconds of extracting the features of images."""
    return READ_START_S + READING * images * rough_latency_ms(card, "float32") / 1e3


def scoring_s(card: Card, recipe: str, images: int) -> float:
    """Return the CPU seconds of running a file over images; 0 images means the bundled
    photographs.
    """
    image_s = READ_IMAGE_S + rough_latency_ms(card, recipe) / 1e3
    return READ_START_S + (images or PHOTOGRAPHS) * image_s


def capturing_s(card: Card, recipe: str, images: int) -> float:
    """Return the CPU seconds of running a file over images under every capture condition."""
    return CAPTURE_TESTS * (scoring_s(card, recipe, images) + CAPTURE_S * images)


def judging_s(card: Card, images: int) -> float:
    """Return the CPU seconds of running a network, in one of its files, over the hold-out under
    capture conditions.
    """
    return scoring_s(card, "float32", CAPTURE_TESTS * images) + CAPTURE_TESTS * images * CAPTURE_S


def finetuning_s(card: Card, training: str, images: int, epochs: int, maps: int = 0) -> float:
    """Return the CPU seconds of at most ``epochs`` epochs on ``images`` images,
    ``maps`` cached maps of each; without its start.
    """
    passes = epochs * recipe_of(training).step + maps * MAP_PASSES
    return passes * images * rough_latency_ms(card, "float32") / 1e3


def detector_s(card: Card, images: int, layers: float = 0.0) -> float:
    """Return the CPU seconds of training a detector:
    the maps of the images and of their copies, and the epochs on them.

    With a share (0-1) of the backbone's ``layers``: of fine-tuning them, after the training of the
    head.
    """
    runs = DETECTOR_MAPS
    if layers:
        runs = DETECTOR_TUNING if layers < 1.0 else DETECTOR_TUNING_ALL
    image_s = runs * rough_latency_ms(card, "float32") / 1e3 + DETECTOR_IMAGE_S
    return DETECTOR_START_S + images * image_s


def labels_s(images: int, landmarks: int) -> float:
    """Return the CPU seconds of finding likely wrong labels by features that are there."""
    # A ridge regression grows with the square of its landmarks.
    image_s = LABELS_IMAGE_S + LABELS_STEP_S * min(images, landmarks) ** 2
    return LABELS_S + images * image_s


def feature_parts(images: int) -> int:
    """Return into how many parts the reading of images is cut: two for most sets, more for large
    ones, so that a kill loses little.
    """
    if images <= FEW_IMAGES:
        return 1
    return max(FEATURE_PARTS, -(-images // IMAGES_A_PART))


def rough_latency_ms(card: Card, recipe: str) -> float:
    """Return a latency in ms of one thread from MACs alone; see :data:`GMACS_PER_SECOND`."""
    return form_of(recipe).latency * max(card.macs, 1) / (GMACS_PER_SECOND * 1e6)


def rough_ms(card: Card, recipe: str, threads: int) -> float:
    """Return :func:`rough_latency_ms` on several threads, which do not share the work evenly."""
    return rough_latency_ms(card, recipe) / float(threads**0.9)


def export_bytes(card: Card, recipe: str) -> int:
    """Return the expected memory while a file is converted to ONNX;
    tf2onnx took 4.1 GB for a file of 102 MB.
    """
    return EXPORT_BYTES + round(30 * rough_size(card, recipe))


def rough_size(card: Card, recipe: str) -> float:
    """Return the bytes of the parameters after compression."""
    return form_of(recipe).bytes * max(card.params, 1)


def training_walls(cores: int) -> Mapping[StageName, float]:
    """Return the seconds by the clock of a CPU second of each kind of fine-tuning,
    before one was seen here. It is below 1 where the training uses several cores.
    """
    kinds = [name for name in StageName if recipe_of(name).tunes_backbone]
    return dict.fromkeys(kinds, max(TRAINING_WALL, 1.0 / cores))
