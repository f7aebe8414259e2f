"""Text of a run is no code in what is written from it: hostile names leave the syntax as it is."""

import ast
import json
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from advisor.core import DeviceFigures, Evaluation
from advisor.reporting import json_for_script, render_html, render_template, trust_content
from advisor.reporting._bundle.documents import render_code
from advisor.store import RunFolder, YamlDocument
from advisor.tasks import TASKS
from tests.builders import CHARACTERS, evaluation
from tests.reporting.bundle.test_model import LANGUAGES, MODEL, parsed

SIGNS = (
    '"""', "'''", "\\", "\n", "\r", "\u2028", "\0", "*/", "/*", "//", "#", "${x}", "\\(x)", "</script>", "<!--", "]]>",
    "{{ x }}", "{% x %}", "`", "$(x)", "';x", '";x', "\u202e", "\x1b[31m", "\ud800", "- a: b", "&", "??/", "\\u000a",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(SIGNS) | st.text(CHARACTERS, max_size=3), min_size=1, max_size=6).map("".join)
OFTEN = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHIPPINGS = [task.shipping() for task in TASKS]


def named(text: str) -> Evaluation:
    """An evaluation whose names are all the text."""
    row = evaluation("mobilenet_v2_1.0_224")
    target = replace(row.configuration.target, device=text, runtime=text, accelerator=text)
    others = {f"{text}2": DeviceFigures(runtime=text, accelerator=text, threads=1)}
    return replace(row, configuration=replace(row.configuration, target=target), device_figures=others)


@OFTEN
@given(HOSTILE)
def test_a_program_differs_from_a_plain_one_in_its_docstring_alone(text: str) -> None:
    for shipping in SHIPPINGS:
        found, plain = (
            ast.parse(render_code(shipping, "python", MODEL, named(name))[1].encode()).body for name in (text, "phone")
        )
        assert isinstance(found[0], ast.Expr)
        assert [ast.dump(each) for each in found[1:]] == [ast.dump(each) for each in plain[1:]]


@OFTEN
@given(HOSTILE)
@pytest.mark.parametrize("platform", LANGUAGES)
def test_code_for_phones_differs_from_a_plain_one_in_a_comment_alone(platform: str, text: str) -> None:
    for shipping in SHIPPINGS:
        found, plain = (render_code(shipping, platform, MODEL, named(name))[1] for name in (text, "phone"))
        assert found.encode().splitlines()[1:] == plain.encode().splitlines()[1:]
        assert parsed(platform, found) == []


@OFTEN
@given(HOSTILE)
def test_a_header_differs_from_a_plain_one_in_its_comments_alone(text: str) -> None:
    values = {"size": 1, "arena": 16, "operators": 1, "methods": ["AddConv2D"], "mean": "0.0f", "std": "1.0f"}
    tensor = {"dtype": "INT8", "shape": [1, 2]}
    scales = {"input_scale": (0.5, 1), "output_scale": (0.5, 1), "input": tensor, "output": tensor}
    package = "advisor.integrations.microcontroller"
    found, plain = (
        render_template("model_settings.h.j2", package, **values, **scales, customs=[name], origin=name).encode()
        for name in (text, "x")
    )
    lines = [[line for line in each.splitlines() if not line.startswith(b"//")] for each in (found, plain)]
    assert lines[0] == lines[1]
    assert not any(line.rstrip().endswith((b"\\", b"??/")) for line in found.splitlines())


class Elements(HTMLParser):
    """The elements of a page, and the text of its JSON."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []
        self.facts = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, len(attrs)))

    def handle_data(self, data: str) -> None:
        self.facts += data if self.found and self.found[-1] == ("script", 2) else ""


@OFTEN
@given(HOSTILE)
def test_a_web_page_has_the_same_elements_and_its_facts_whole(text: str) -> None:
    found, plain = (
        Elements(
            render_html(
                "web.html.j2", "advisor.integrations.browser.web", policy=name, style="", scripts=[], title=name,
                counted=name, bars=name, remark=name, served=False,
                facts=trust_content(json_for_script({"labels": [name]})),
            )
        )
        for name in (text, "x")
    )  # fmt: skip
    assert found.found == plain.found
    assert json.loads(found.facts) == {"labels": [text]}


@OFTEN
@given(HOSTILE.filter(lambda text: text.isprintable()))
def test_a_request_keeps_a_text_whole(tmp_path: Path, text: str) -> None:
    run = RunFolder.create(tmp_path, "x")
    run.write_request({"data": text})
    assert YamlDocument.read(run.path / "request.yaml").values["data"] == text
    assert yaml.safe_load((run.path / "request.yaml").read_text())["data"] == text


@pytest.mark.integration
def test_the_scripts_of_the_web_page_are_valid(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    for name in ("pixels.js", "page.js"):
        (tmp_path / name).write_text((files("advisor.integrations.browser.web") / name).read_text())
        subprocess.run([node, "--check", tmp_path / name], check=True)
