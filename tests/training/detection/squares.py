"""The images of red and green squares that small detectors learn from."""

from advisor.datasets import InputSpec
from advisor.training import Hyperparameters, MakeHead, TrainableHead
from advisor.training._on_maps.fit import fit
from advisor.training._on_maps.kept import KeptMaps
from tests.training.nets import WIDE

VIEW = InputSpec(WIDE, (127.5,) * 3, (127.5,) * 3)
IMAGES, LEARNT = 48, 32  # Two whole batches: batches of one size share a graph


def fitted(make_head: MakeHead, kept: KeptMaps, classes: int, hyperparameters: Hyperparameters) -> TrainableHead:
    """Return a head that was fitted to kept maps."""
    import keras

    keras.utils.set_random_seed(hyperparameters.seed)
    head = make_head([level.shape[1:] for level in kept.levels], classes)
    fit(head, kept, hyperparameters)
    return head
