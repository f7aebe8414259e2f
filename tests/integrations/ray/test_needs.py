"""What a job takes of a node of a cluster."""

import pytest

from advisor.integrations.ray import needs_of
from advisor.isolation import PoolKind


@pytest.mark.parametrize("kind", [PoolKind.LIGHT, PoolKind.HEAVY, PoolKind.TRAINERS])
def test_a_job_takes_a_core_and_the_memory_that_it_is_expected_to_need(kind: PoolKind) -> None:
    assert needs_of(kind, gpus=0, memory_bytes=64e9) == {"num_cpus": 1, "memory": kind.expected_bytes}


def test_a_cluster_of_small_nodes_gives_one_whole_to_what_needs_more() -> None:
    assert needs_of(PoolKind.TRAINERS, gpus=0, memory_bytes=1e9)["memory"] == 1_000_000_000


def test_what_trains_takes_a_gpu_where_there_is_one() -> None:
    assert needs_of(PoolKind.TRAINERS, gpus=2, memory_bytes=64e9)["num_gpus"] == 1
    assert "num_gpus" not in needs_of(PoolKind.HEAVY, gpus=2, memory_bytes=64e9)
