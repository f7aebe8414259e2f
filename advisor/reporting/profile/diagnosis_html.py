"""The part of a page that says why a quantized file is less accurate than its float origin."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from advisor.compression.diagnosis.values import Diagnosis
from advisor.reporting.profile.diagnosis_lines import decibel, outlier, scale, span
from advisor.reporting.profile.diagnosis_plots import channel_plot, snr_plot
from advisor.reporting.templating import page_environment, trusted


def diagnosis_html(found: Diagnosis) -> Markup:
    """Return verdict, plots and every layer; names from the files are escaped."""
    layers = {layer.index: layer for layer in found.layers}
    plots = [(layers[one.index], channel_plot(layers[one.index], one)) for one in found.channels]
    return trusted(
        page_environment("advisor.reporting.profile")
        .get_template("diagnosis.html.j2")
        .render(
            found=found,
            against=Path(found.against).name,
            snr=snr_plot(found),
            plots=plots,
            decibel=decibel,
            outlier=outlier,
            scale=scale,
            span=span,
        )
    )
