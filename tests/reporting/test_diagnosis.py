import re
from dataclasses import replace

from advisor.core import Channels, DiagnosedLayer, Diagnosis, Outlier, parse
from advisor.engine import Insights
from advisor.reporting._compression import channel_plot, diagnosis_html, snr_plot
from advisor.reporting._files import render_markdown
from advisor.reporting._html import render_html
from tests.reporting.views import run_view


def layer(index: int, own: float | None, name: str = "block") -> DiagnosedLayer:
    return DiagnosedLayer(
        index, "CONV_2D", name, (1, 8, 8, 4), "int8", own, own, (-1.0, 1.0), (-0.5, 2.0), 0.1, 20.0,
        Outlier(2, 41.0), Outlier(1, 3.0), True, cause="too coarse" if own is not None and own < 25 else "",
    )  # fmt: skip


def diagnosis(name: str = "block") -> Diagnosis:
    layers = (layer(0, 40.0, name), layer(1, 6.0, name), layer(2, None, name))
    channels = (Channels(1, (-0.5, 0.0, -0.1, 0.0), (0.5, 0.1, 2.0, 0.2)),)
    return Diagnosis(
        "a.tflite", "b.tflite", 16, "photographs", layers, 0, 12.0, 0.9, "", "", ("it differs", "why"), channels
    )


def test_json_and_back_is_the_same() -> None:
    found = diagnosis()
    assert parse(Diagnosis, found.to_json()) == found


def test_a_weak_layer_and_an_outlier_channel_are_set_off_and_many_share_bars() -> None:
    drawn = snr_plot(diagnosis())
    assert drawn.count('class="bar"') == 1
    assert drawn.count('class="weak"') == 1
    found = diagnosis()
    drawn = channel_plot(found.layers[1], found.channels[0].least, found.channels[0].most)
    assert drawn.count('class="held"') == 1
    assert re.findall(r'class="(bar|weak)"', drawn) == ["bar", "bar", "weak", "bar"]
    many = channel_plot(layer(1, 6.0), range(1000), range(1, 1001))
    assert len(re.findall(r'class="(?:bar|weak)"', many)) == 200


def test_names_from_the_file_are_escaped() -> None:
    page = diagnosis_html(diagnosis("<script>alert(1)</script>"))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_run_shows_why_a_form_loses_on_the_page_and_in_markdown() -> None:
    view = run_view()
    row = next(row for row in view.ok if row.configuration.compression == "int8")
    told = replace(view, insights=Insights(diagnoses={row.configuration.key: diagnosis()}))
    page = render_html(told)
    assert 'id="losses"' in page
    assert '<svg class="drawing"' in page
    assert "**Why " in render_markdown(told)
    assert 'id="losses"' not in render_html(view)
