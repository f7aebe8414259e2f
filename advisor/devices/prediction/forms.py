"""Find the form with the most similar latency for a form whose own latency is unknown."""

from __future__ import annotations

from collections.abc import Collection

from advisor.core.errors import UsageError, nearest
from advisor.core.forms import FORMS

_SIMILAR = {name: form for name, form in FORMS.items() if name == form.name != form.like}


def similar_form(form: str, measured: Collection[str], known: Collection[str]) -> tuple[str, float]:
    """Return the precision whose latencies to use for ``form`` on a target, and the deviation (log) that this adds.

    Args:
        form: a precision or the name of a compression recipe.
        measured: precisions that were measured on the target itself.
        known: precisions that were measured on any target.

    Raises:
        UsageError: no latency of the form is known. The error names the nearest form.
    """
    other = None if form in measured else _SIMILAR.get(form)
    precision, log_sd = (other.like, other.log_sd) if other else (form, 0.0)
    if precision not in known:
        forms = sorted(set(known) | set(_SIMILAR))
        raise UsageError(
            f"no latency is known of the form '{form}'{nearest(form, forms)}", f"forms: {', '.join(forms)}"
        )
    return precision, log_sd
