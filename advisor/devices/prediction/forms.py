"""Forms whose own latency is unknown, and the form that runs most alike."""

from __future__ import annotations

from collections.abc import Collection

from advisor.core.errors import UsageError, nearest
from advisor.core.forms import FORMS

_STAND_FOR = {name: form for name, form in FORMS.items() if name == form.name != form.like}


def stand_in(form: str, measured: Collection[str], known: Collection[str]) -> tuple[str, float]:
    """Return the precision whose latencies stand for ``form`` on a target, and the deviation (log) that this adds.

    Args:
        form: a precision or the name of a compression recipe.
        measured: precisions that were measured on the target itself.
        known: precisions that were measured anywhere.

    Raises:
        UsageError: a form that nothing is known of; the nearest is named.
    """
    other = None if form in measured else _STAND_FOR.get(form)
    precision, doubt = (other.like, other.log_sd) if other else (form, 0.0)
    if precision not in known:
        forms = sorted(set(known) | set(_STAND_FOR))
        raise UsageError(
            f"no latency is known of the form '{form}'{nearest(form, forms)}", f"forms: {', '.join(forms)}"
        )
    return precision, doubt
