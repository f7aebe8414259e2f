"""Object counting: a centre and a class for each object in an image.

``COUNTING`` states the facts of the task. Images, checks and stages are those of detection;
``_counting_task.py`` has the methods that differ.
"""

from __future__ import annotations

from advisor.core import TrainingName
from advisor.tasks._counting_task import Counting

COUNTING = Counting(
    name="object-counting",
    model_kind="Object detector",
    metric="F1",
    by_class="F1",
    by_class_is="F1 of a class's centres",
    default=(TrainingName.HEAD,),
    needs="images with boxes",
    right_if=(
        "A centre is right if it is inside the true box of an object of its class that no surer"
        " one has taken."
    ),
    side=320,
    cards=4,
    conditions=True,
    robust=True,
    retrains=True,
    other_conditions="on playing cards, another camera cost up to 6 points",
    judging_s=0.005,
)
