"""The form of a file: how most of it computes, and what is known of such files in advance.

``_forms.py`` has one for each compression recipe.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """Facts about a recipe's files that are known before one is made."""

    name: str  #: form of most of the arithmetic; a target supports it or not
    #: the form with the most similar latency, used where this one's own latency is unknown
    like: str
    #: standard deviation (of the logarithm) that using ``like`` adds. Weights that are widened
    #: while loading cost little; arithmetic that converts while running can be slower or faster.
    log_sd: float = 0.0
    #: timings of ``like`` on this machine predict its latency here: both were measured within 3 %
    #: of each other on the networks of ``benchmarks/results/compression.md``.
    predictable: bool = False
    #: relative to float32, as measured on MobileNetV2 with LiteRT 2.3 on x86;
    #: for order and cost estimates.
    latency: float = 1.0
    bytes: float = 4.0  #: bytes of a parameter in the file, measured likewise
    #: points of top-1 that it usually loses, for the order of candidates. For int8 this is the
    #: mean of the catalogue's published pairs; the others are in proportion to
    #: ``benchmarks/results/compression.md``.
    drop: float = 0.0
