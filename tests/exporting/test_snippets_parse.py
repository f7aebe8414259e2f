"""The code for apps, parsed by grammars of its languages: no syntax error in any of its variants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import tree_sitter
import tree_sitter_kotlin
import tree_sitter_swift

from advisor.core.confidence_facts import ShippedThresholds
from advisor.exporting.model import ShippedModel
from advisor.exporting.shipping import Shipping
from advisor.exporting.snippets import render
from advisor.tasks import CLASSIFICATION, TASKS
from tests.builders import evaluation

LANGUAGES = {"android": tree_sitter_kotlin, "ios": tree_sitter_swift}
MODEL = ShippedModel(b"", ("glass", "paper"), 127.5, 127.5, 224, (), ShippedThresholds(0.5))
CODE = [(shipping, platform) for shipping in (task.shipping() for task in TASKS) for platform in LANGUAGES]


def faults(node: Any) -> Iterator[str]:
    """What the grammar does not take, with its line."""
    if node.type == "ERROR" or node.is_missing:
        yield f"line {node.start_point[0] + 1}: {node.text.decode()[:80]!r}"
    for child in node.children if node.has_error else ():
        yield from faults(child)


def parsed(platform: str, source: str) -> list[str]:
    parser = tree_sitter.Parser(tree_sitter.Language(LANGUAGES[platform].language()))
    return list(faults(parser.parse(source.encode()).root_node))


def written(shipping: Shipping, platform: str, accelerator: str = "cpu") -> str:
    row = evaluation("mobilenet_v2_1.0_224")
    target = replace(row.configuration.target, accelerator=accelerator)
    row = replace(row, configuration=replace(row.configuration, target=target))
    return render(shipping, platform, MODEL, row)[1]


@pytest.mark.parametrize("accelerator", ["cpu", "gpu", "npu"])
@pytest.mark.parametrize(("shipping", "platform"), CODE)
def test_every_variant_is_valid_in_its_language(shipping: Shipping, platform: str, accelerator: str) -> None:
    assert parsed(platform, written(shipping, platform, accelerator)) == []


def classifier(platform: str, thresholds: ShippedThresholds) -> str:
    shipping, model = CLASSIFICATION.shipping(), replace(MODEL, thresholds=thresholds)
    return render(shipping, platform, model, evaluation("mobilenet_v2_1.0_224"))[1]


@pytest.mark.parametrize("platform", LANGUAGES)
def test_a_classifier_without_a_threshold_is_valid_too(platform: str) -> None:
    source = classifier(platform, ShippedThresholds())
    assert parsed(platform, source) == []
    assert "least" not in source.lower()


@pytest.mark.parametrize("platform", LANGUAGES)
@pytest.mark.parametrize(
    "thresholds",
    [
        ShippedThresholds(0.5, {"glass": 0.7, "paper": 0.000125}),
        ShippedThresholds(None, {"glass": 0.7}, {"paper": 0.01}),
        ShippedThresholds(recall={"glass": 0.25, "paper": 0.01}),
    ],
)
def test_thresholds_of_classes_are_valid_too(platform: str, thresholds: ShippedThresholds) -> None:
    source = classifier(platform, thresholds)
    assert parsed(platform, source) == []
    assert ("leastof" in source.lower().replace("_", "")) == bool(thresholds.by_class)
    assert ("mayshow" in source.lower().replace("_", "")) == bool(thresholds.recall)


@pytest.mark.parametrize(("shipping", "platform"), CODE)
def test_a_fault_would_be_found(shipping: Shipping, platform: str) -> None:
    assert parsed(platform, written(shipping, platform).replace("image)", "image))", 1))
