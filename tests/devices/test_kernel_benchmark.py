"""The benchmark of predictions from kernels keeps its judges apart."""

from __future__ import annotations

from advisor.devices.prediction.predictor import Predictor
from benchmarks.catalogue_files import names
from benchmarks.latency_kernels import JUDGES, MODELS, anchors, judges


def test_forty_networks_of_the_catalogue_judge_and_the_list_does_not_change() -> None:
    chosen = judges()
    assert len(chosen) == JUDGES == 40
    assert set(chosen) < set(names())
    assert chosen[:3] == ("efficientnet_b0_224", "efficientnet_lite2_260", "inception_resnet_v2_299")


def test_a_network_that_judges_is_not_measured_for_the_others(predictor: Predictor) -> None:
    for threads in (1, 2):
        chosen = anchors(predictor, threads)
        assert len(chosen) == MODELS
        assert not set(chosen) & set(judges())
