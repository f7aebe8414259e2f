"""Image tagging: any number of labels for each image.

``TAGGING`` states the facts of the task. Read ``_task.py`` first (its methods), then
``_images.py`` (what is read and checked), ``_stages.py``, ``_places.py`` and ``_thresholds.py``
(training),
``_judging.py`` (figures), ``_growth.py`` (more images), ``_answers.py`` and ``_shipping.py``
(bundle), and ``_own.py`` (users' own taggers).
"""

from __future__ import annotations

from advisor.core import Gain, OwnCards
from advisor.tasks._task import USUAL_TRAININGS
from advisor.tasks.tagging._task import Tagging

TAGGING = Tagging(
    name="image-tagging",
    model_kind="Image tagger",
    metric="mAP",
    by_class="AP",
    by_class_is="average precision of the images by the score of a label",
    default=USUAL_TRAININGS,
    needs="images with labels",
    conditions=True,
    robust=True,
    linear=True,
    guarantees=("--min-precision", "--min-recall"),
    own_thresholds=True,
    guess_figure="mAP by chance",
    # MobileNetV2 lost two thirds of its errors on playing cards, and about a tenth on blood cells.
    gain=Gain(0.35, 0.25),
    own_cards=OwnCards("tflite_tagger", "tflite_fixed_tagger"),
)
