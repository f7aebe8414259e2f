"""Build Keras graphs: functions ``(input_size, classes, **arguments) -> keras.Model`` by name.

A card names the function as its ``architecture``. `_convert.py` and `_checking.py` call
:func:`build`; `_schema.py` refuses other names. A new function needs a line in ``_NETWORKS``.
"""

from importlib import import_module
from inspect import signature
from typing import Any

from advisor.catalog._cards import GRAPH_FILE, OWN_FILES, WHOLE_NETWORKS
from advisor.core import UsageError

_NETWORKS = {
    "keras_applications": "densenet efficientnet inception_resnet_v2 mobilenet_v3 nasnet",
    "networks": (
        "efficientnet_lite mnasnet mobilenet_v1 mobilenet_v2 resnet shufflenet_v2 squeezenet"
    ),
    "slim_inception": "inception_v1 inception_v2 inception_v3 inception_v4",
}
_MODULES = dict[str, str]()
for _module, _names in _NETWORKS.items():
    _MODULES |= dict.fromkeys(_names.split(), _module)

NAMES = (*sorted(_MODULES), GRAPH_FILE, *WHOLE_NETWORKS, *OWN_FILES)
"""The architectures that a card may name."""


def build(name: str, input_size: int, classes: int, arguments: dict[str, Any]) -> Any:
    """Build the Keras graph ``name``: image (1, S, S, 3) to ``{"probabilities", "features"}``."""
    if name in (GRAPH_FILE, *WHOLE_NETWORKS, *OWN_FILES):
        raise UsageError(
            "no Keras graph is built for this card: its graph is a file", "name another card"
        )
    if name not in _MODULES:
        raise UsageError(
            f"no architecture is called '{name}'", f"architectures: {', '.join(NAMES)}"
        )
    function = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    try:
        return function(input_size=input_size, classes=classes, **arguments)
    except (TypeError, ValueError) as error:
        # Every card states the first two otherwise: as input_size, and by its weights.
        arguments_known = list(signature(function).parameters)[2:]
        raise UsageError(
            f"architecture '{name}' cannot be built with {arguments}: {error}",
            f"its arguments: {', '.join(arguments_known) or 'none'}",
        ) from error
