"""Object counting: a centre and a class for each object in an image. Images, checks and stages are detection's."""

from __future__ import annotations

from advisor.core import HEAD
from advisor.tasks._counting_task import Counting

COUNTING = Counting(
    "object-counting",
    "Object detector",
    "F1",
    "F1",
    "F1 of a class's centres",
    (HEAD,),
    "images with boxes",
    "A centre is right if it is inside the true box of an object of its class that no surer one has taken.",
    side=320,
    cards=4,
    conditions=True,
    robust=True,
    retrains=True,
    other_conditions="on playing cards, another camera cost up to 6 points",
    judging_s=0.005,
)
