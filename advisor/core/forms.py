"""What each compression recipe runs as: the one table of it, read by devices, prices, priors and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """What is known of a recipe's files before there is one.

    Attributes:
        name: the form that most of the work is done in, which a target takes or not.
        like: the form that runs most alike where this one's own latency is unknown.
        doubt: the deviation (log) that this adds: weights that are widened while loading cost little, arithmetic that
            changes while running can go either way.
        told: the timings of ``like`` on this machine tell its latency here: both were measured alike, within 3 % on the
            networks of ``benchmarks/results/compression.md``; else it is expected at a pace of its own.
        latency: relative to float32, as measured on MobileNetV2 with LiteRT 2.3 on x86; orders and prices.
        bytes: of a parameter in the file, measured likewise.
        drop: points of top-1 that it usually loses: of int8 the mean of the catalogue's published pairs, of the others
            in proportion to what ``benchmarks/results/compression.md`` measured; orders what comes first.
    """

    name: str
    like: str
    doubt: float = 0.0
    told: bool = False
    latency: float = 1.0
    bytes: float = 4.0
    drop: float = 0.0


FORMS: Mapping[str, Form] = {
    "float32": Form("float32", "float32", told=True),
    "float16": Form("float16", "float32", doubt=0.05, told=True, bytes=2.0),
    # Not told: with LiteRT 2.3 on x86 it was measured from half to four times the float latency.
    "dynamic_int8": Form("dynamic_int8", "float32", doubt=0.7, latency=3.0, bytes=1.0, drop=0.6),
    "weight_int8": Form("weight_int8", "float32", doubt=0.1, told=True, bytes=1.0),
    "int8": Form("int8", "int8", told=True, latency=0.45, bytes=1.0, drop=1.2),
    # Not told: XNNPACK leaves many layers of it to slow kernels; measured at three and a half to five times float's.
    "weight_int4": Form("weight_int4", "float32", doubt=0.2, bytes=0.5, drop=15.0),
    "int8_per_tensor": Form("int8", "int8", told=True, latency=0.45, bytes=1.0, drop=4.0),
    # Not told: XNNPACK takes none of it, and the predictor knows no measurement of such a form.
    "int16x8": Form("int16x8", "int16x8", latency=1.5, bytes=1.0),
    "int8_float_io": Form("int8", "int8", told=True, latency=0.45, bytes=1.0, drop=1.2),
    # Not told: what it leaves in float is known once it is made; it was measured as fast as int8 to a fifth slower.
    "mixed_int8": Form("int8", "int8", latency=0.55, bytes=1.0, drop=0.6),
    "qat_int8": Form("int8", "int8", told=True, latency=0.45, bytes=1.0, drop=0.6),
    "pruned_50": Form("pruned_50", "float32", doubt=0.05, told=True),
    "pruned_75": Form("pruned_75", "float32", doubt=0.05, told=True),
    "clustered_16": Form("clustered_16", "float32", doubt=0.05, told=True),
    "rounded": Form("float32", "float32", told=True),
}
"""Every recipe of ``advisor.compression.recipes``, by name."""


def form_of(recipe: str) -> Form:
    """Return what a recipe runs as; a name that is no recipe's, such as that of a measured precision, is its own."""
    return FORMS.get(recipe) or Form(recipe, recipe)
