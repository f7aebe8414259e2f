"""Rows of a made-up cost table."""

from advisor.core import FINETUNE_TOP, HEAD, HEAD_SUBSET
from benchmarks.cost_table import Row

GAINS = {HEAD_SUBSET: -3.0, HEAD: 0.0, FINETUNE_TOP: 2.0}

TRAINING_S = {HEAD_SUBSET: 1.0, HEAD: 2.0, FINETUNE_TOP: 100.0}

BASES = {"mobilenet_v2_1.0_224": 88.0, "efficientnet_lite0_224": 90.0}


def made(base: str, size: int, training: str, recipe: str, threads: int) -> Row:
    """Return one row: larger inputs are more accurate and slower, int8 is faster and a point less accurate."""
    light = recipe == "int8"
    return Row(
        card=base if size == 224 else f"{base}_at_{size}",
        base=base,
        size=size,
        params=3_500_000,
        macs=300_000_000,
        training=training,
        recipe=recipe,
        threads=threads,
        accuracy=BASES[base] + GAINS[training] + (size - 224) / 48 - light,
        latency_ms=size / 64 / threads / (1 + light),
        bytes=3_500_000 * (1 if light else 4) + size,
        shared_s=4.0 if training == HEAD_SUBSET else 10.0,
        training_s=TRAINING_S[training],
        own_s=2.0,
        timing_s=3.0,
    )
