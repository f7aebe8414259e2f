"""One way to train a card, as a value; ``_training.py`` lists them."""

from dataclasses import dataclass
from enum import StrEnum


class TrainingName(StrEnum):
    """The names of the training recipes."""

    NONE = "none"
    HEAD = "head"
    HEAD_SUBSET = "head_subset"
    FINETUNE_CACHED = "finetune_cached"
    FINETUNE_TOP = "finetune_top"
    FINETUNE_ALL = "finetune_all"


@dataclass(frozen=True)
class TrainingRecipe:
    """One way to train a card."""

    name: str  #: as users and files write it
    result: str  #: what it makes, in words
    learns: bool = True  #: it learns from the user's images
    #: every card is evaluated with it first, so the name of a candidate does not mention it
    base: bool = False
    #: it learns from some of the images, and leaves float32 alone. It decides which cards are
    #: trained on all images, and is never the answer.
    quick_head: bool = False
    #: share of the backbone's layers that it trains, from the top;
    #: 0 leaves the backbone as it is.
    layers: float = 0.0
    cached: bool = False  #: it trains on kept maps of the layers below its own
    detects: bool = False  #: it trains detectors too
    over: str = ""  #: the lighter recipe that ``gain`` is over; empty for none
    #: share of the errors of that recipe that it removes, before the run has results
    gain: float = 0.0
    spread: float = 0.0  #: standard deviation of ``gain``
    #: what the sampler's prior expects of it over the head alone;
    #: the run's own results correct it.
    points: float = 0.0
    #: a step of training over one float run in LiteRT, for an image. With ``finetune_cached``,
    #: 0.65 CPU seconds for 32 images of EfficientNet-Lite0 on a Xeon, before 0.83 (decision 0048).
    step: float = 0.0

    @property
    def tunes_backbone(self) -> bool:
        """True if it takes minutes: a card is fine-tuned only if its head was promising."""
        return self.layers > 0

    @property
    def trained_twice(self) -> bool:
        """True if the model that ships is another than the one that is compared."""
        return self.learns and not self.quick_head
