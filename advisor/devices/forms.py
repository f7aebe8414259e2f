"""Forms whose own latency is unknown, and the form that runs most alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from advisor.core.errors import UsageError, nearest

_RUNS_AS: Mapping[str, tuple[str, float]] = {
    "float16": ("float32", 0.05),
    "weight_int8": ("float32", 0.1),
    "weight_int4": ("float32", 0.2),
    "pruned_50": ("float32", 0.05),
    "clustered_16": ("float32", 0.05),
    "dynamic_int8": ("float32", 0.7),
    "qat": ("int8", 0.03),
}
"""Form that runs most alike where a form's own latency is unknown, and the deviation (log) that this adds: weights that
are widened while loading cost little, arithmetic that changes while running (``dynamic_int8``) can go either way."""


def stand_in(form: str, measured: Collection[str], known: Collection[str]) -> tuple[str, float]:
    """Return the precision whose latencies stand for ``form`` on a target, and the deviation (log) that this adds.

    Args:
        form: a precision or the name of a compression recipe.
        measured: precisions that were measured on the target itself.
        known: precisions that were measured anywhere.

    Raises:
        UsageError: a form that nothing is known of; the nearest is named.
    """
    precision, doubt = _RUNS_AS[form] if form in _RUNS_AS and form not in measured else (form, 0.0)
    if precision not in known:
        forms = sorted(set(known) | set(_RUNS_AS))
        raise UsageError(
            f"no latency is known of the form '{form}'{nearest(form, forms)}", f"forms: {', '.join(forms)}"
        )
    return precision, doubt
