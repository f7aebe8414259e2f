"""Tests of the front of cards by published accuracy and latency on a device."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import Card, Catalogue, listing
from advisor.core import Provenance, StageError, UsageError
from advisor.engine import card_front
from advisor.engine._targets.card_front import card_front as front_of
from advisor.isolation import ChildPool
from tests.builders import must_fail

ROWS = tuple(listing.CardRow(card, False) for card in Catalogue.load().values())


def on(device: str, rows: tuple[listing.CardRow, ...] = ROWS) -> tuple[listing.CardRow, ...]:
    return front_of(rows, device, ())


def test_each_card_of_a_predicted_front_is_slower_and_more_accurate_than_the_one_before() -> None:
    front = on("raspberry-pi-5")
    speed, accuracy = [row.latency.value for row in front if row.latency], [row.top1 or 0 for row in front]
    assert len(front) > 5
    assert speed == sorted(speed)
    assert accuracy == sorted(set(accuracy))
    assert accuracy[-1] == max(row.top1 for row in ROWS if row.top1)
    assert {row.latency.provenance for row in front if row.latency} <= {Provenance.PREDICTED, Provenance.PUBLISHED}


def test_a_device_without_floats_has_a_front_of_int8_and_one_like_no_other_has_none() -> None:
    assert on("coral-dev-board")
    must_fail(UsageError, "no latency on 'hailo-8' can be predicted: no comparable device", on, "hailo-8")
    refused = must_fail(UsageError, "'host:onnxruntime' runs files", on, "host:onnxruntime")
    assert "advisor benchmark" in (refused.hint or "")


def named(*names: str) -> tuple[listing.CardRow, ...]:
    return tuple(row for row in ROWS if row.card.name in names)


@pytest.mark.integration
def test_cards_are_timed_without_tensorflow_by_their_graph_files_and_gaps_named(
    monkeypatch: pytest.MonkeyPatch, shared_folder: Path
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(shared_folder / "card-graphs"))
    monkeypatch.setattr(card_front, "require_quiet", lambda *_, **__: None)  # tests run beside it
    build = card_front._build_graph

    def missing(what: str) -> None:
        raise UsageError(f"{what} needs TensorFlow, which is not installed", "install it")

    def refuse(pool: ChildPool, card: Card, folder: Path) -> None:
        if card.name == "lcnet_0.75_224":
            raise StageError("memory ran out")
        build(pool, card, folder)

    monkeypatch.setattr(card_front, "require_training", missing)
    monkeypatch.setattr(card_front, "_build_graph", refuse)
    (small,) = named("mobilenet_v1_0.25_128")
    without_graph = replace(small, card=replace(small.card, graph=None))
    rows = (*named("lcnet_0.5_224", "lcnet_0.75_224", "lcnet_1.0_224"), without_graph)
    said: list[str] = []
    front = front_of(rows, "host:cpu-x1", (), said.append)
    assert [row.card.name for row in front] == ["lcnet_0.5_224", "lcnet_1.0_224"]
    assert {row.latency.provenance for row in front if row.latency} == {Provenance.MEASURED}
    assert said[0].startswith("only cards with a graph file are timed: a card without a graph file needs TensorFlow")
    assert said[1].startswith("timing graphs: 0 timed")
    assert "lcnet_0.75_224 is left out: memory ran out" in said
