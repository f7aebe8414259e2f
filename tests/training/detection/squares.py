"""The images of red and green squares that small detectors learn from."""

from __future__ import annotations

from advisor.datasets.images import InputSpec
from advisor.training.detection.fit import Fitting, Lesson, Lessons, fit
from advisor.training.detection.maps import KeptMaps
from tests.training.nets import WIDE

VIEW = InputSpec(WIDE, (127.5,) * 3, (127.5,) * 3)
IMAGES, LEARNT = 48, 36


def fitted(lessons: Lessons, kept: KeptMaps, classes: int, fitting: Fitting) -> Lesson:
    """Return a lesson whose head was fitted to kept maps."""
    import keras

    keras.utils.set_random_seed(fitting.seed)
    lesson = lessons([level.shape[1:] for level in kept.levels], classes)
    fit(lesson, kept, fitting)
    return lesson
