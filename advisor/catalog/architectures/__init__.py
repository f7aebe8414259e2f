"""Keras graphs: functions ``(input_size, classes, **arguments) -> keras.Model``, named by cards as ``architecture``."""

from importlib import import_module
from typing import Any

from advisor.catalog.cards import OWN_FILES
from advisor.core.errors import UsageError

_MODULES = {
    "densenet": "keras_applications",
    "efficientnet": "keras_applications",
    "efficientnet_lite": "networks",
    "inception_resnet_v2": "keras_applications",
    "inception_v1": "slim_inception",
    "inception_v2": "slim_inception",
    "inception_v3": "slim_inception",
    "inception_v4": "slim_inception",
    "mnasnet": "networks",
    "mobilenet_v1": "networks",
    "mobilenet_v2": "networks",
    "mobilenet_v3": "keras_applications",
    "nasnet": "keras_applications",
    "resnet": "networks",
    "shufflenet_v2": "networks",
    "squeezenet": "networks",
}

NAMES = (*_MODULES, *OWN_FILES)
"""The architectures that a card may name."""


def build(name: str, input_size: int, classes: int, arguments: dict[str, Any]) -> Any:
    """Build the Keras graph ``name``: image (1, S, S, 3) in, ``{"probabilities", "features"}`` out."""
    if name in OWN_FILES:
        raise UsageError(
            "a card of a user's own file has no graph: the file is taken as it is", "name a card of the catalogue"
        )
    if name not in _MODULES:
        raise UsageError(f"no architecture is called '{name}'", f"architectures: {', '.join(NAMES)}")
    function = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    try:
        return function(input_size=input_size, classes=classes, **arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"architecture '{name}' cannot be built with {arguments}: {error}", "docs/catalogue.md lists the arguments"
        ) from error
