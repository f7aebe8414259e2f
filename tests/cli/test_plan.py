"""``advisor plan``, ``init`` and ``explain``, which spend nothing; every command has ``--json``."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

import advisor as package
from advisor.catalog import Catalogue
from advisor.cli._main import app
from advisor.compression import RECIPES
from advisor.core import METRICS, list_choosable
from advisor.engine import resolve
from advisor.engine._question.options import REQUEST_OPTIONS
from advisor.reporting import text as glossary
from advisor.reporting._text import Term, term
from tests.documents import problems
from tests.makers.commands import Advisor, ended, refused
from tests.tables import read_table
from tools.schemas import write_schemas

CARD = "mobilenet_v2_1.0_224"
OF_CARD = ("--candidates", CARD, "--threads", "1")
TWO_FORMS = (*OF_CARD, "--compressions", "float32,int8")
HEADS = ("--training", "head", "--stop-below", "never")
PROTOCOL = "mcp"
"""The command whose standard output belongs to a protocol, which is JSON already."""
WITHOUT_TABLE = set(read_table(__file__, "texts.yaml")["commands_without_a_table"])


def planned(advisor: Advisor, *options: str) -> dict[str, Any]:
    document: dict[str, Any] = ended(advisor("plan", *options, "--json")).document
    assert problems("plan", document) == []
    return document


def shown(advisor: Advisor, *options: str) -> str:
    """Return what a plan shows, in one line."""
    return " ".join(ended(advisor("plan", *options)).out.split())


def test_every_configuration_has_latency_size_accuracy_and_price(advisor: Advisor) -> None:
    plan = planned(advisor, *OF_CARD, "--budget", "50ms")
    assert plan["configurations"] == len(plan["candidates"]) == 5
    for row in plan["candidates"]:
        assert row["latency"]["value"] > 0
        if row["compression"] in ("float32", "float16", "weight_int8", "int8"):  # as other machines were measured
            assert row["latency"]["low"] < row["latency"]["value"] < row["latency"]["high"]
            assert 0 < row["meets_latency_budget"] <= 1
        else:
            assert row["latency"]["source"].startswith("rough")
            assert row["meets_latency_budget"] is None
        assert min(row["size"]["value"], row["price_s"]) > 0
        assert row["accuracy"]["value"] == pytest.approx(71.8, abs=2)
    assert plan["price_s"] > plan["cards"][0]["first_result_s"] > 0
    known = Catalogue.load()[CARD].weights[0].file.size_bytes
    assert plan["download_bytes"] == plan["cards"][0]["download_bytes"] == known
    assert plan["remarks"] == []


def test_latencies_of_another_runtime_are_a_guide(advisor: Advisor, done_once: Callable[..., None]) -> None:
    device = "raspberry-pi-4:ncnn-cpu-x4"
    remark = f"{device}: the latencies are those of ncnn, which does not run .tflite files; take them as a guide"
    asked = ("--candidates", CARD, "--compressions", "float32", "--device")
    assert f"{CARD} float32 71.8 - " in shown(advisor, *asked, "coral-usb"), "it takes no such form"
    words = shown(advisor, "--candidates", "levit_128_224", *asked[2:], "galaxy-s25:gpu", "--budget", "10ms")
    assert " ? 25/412 " in words, "no probability where most of it runs on the CPU"
    assert "GPU delegate runs 0 of 1 file whole; of levit_128_224 float32 25 of 412 nodes (" in words
    done_once("plan")
    assert planned(advisor, *asked, device)["remarks"] == [remark]
    assert remark in advisor("plan", *asked, device).out


def test_no_connection_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    view = package.plan(budget="50ms", compressions=["float32"])
    assert len(view.cards) == 12
    assert not any(card.on_disk for card in view.cards)


def test_a_hopelessly_large_file_is_filtered(advisor: Advisor, tmp_path: Path, done_once: Callable[..., None]) -> None:
    done_once("plan")
    asked = (*TWO_FORMS, "--size-budget", "5MB", "--budget", "50ms")
    filtered = {row["compression"]: row["filtered"] for row in planned(advisor, *asked)["candidates"]}
    assert filtered["float32"] == "its file has at least 13.3 MB, more than the size budget 5.0 MB"
    assert filtered["int8"] == ""
    table = shown(advisor, *asked)
    for words in (CARD, "int8", "Cost: about", "to download", "Filtered: ", "after the download", "Nothing was spent"):
        assert words in table
    assert not (tmp_path / "runs").exists()
    assert not [name for name in ("weights", "artifacts") if (tmp_path / "cache" / name).exists()]


def test_a_head_of_few_classes_may_be_what_makes_the_file_small_enough(advisor: Advisor, photos: Path) -> None:
    limits = ("--size-budget", "1MB", "--compressions", "float32,int8", "--threads", "1")
    asked = ("--candidates", "mobilenet_v1_0.25_224", *limits)
    without = planned(advisor, *asked)["candidates"]
    with_head = planned(advisor, *asked, "--data", str(photos), "--training", "head")["candidates"]
    assert [bool(row["filtered"]) for row in without] == [True, False]
    assert [bool(row["filtered"]) for row in with_head] == [False, False]


def test_the_time_limit_says_how_many_are_reached_and_offline_what_is_missing(advisor: Advisor, photos: Path) -> None:
    plan = planned(advisor, *OF_CARD, "--time-limit", "9s")
    assert 0 < plan["configurations_reached"] < plan["configurations"]
    assert plan["price_under_limit_s"] == 9
    refused(advisor("plan", "--candidates", CARD, "--offline", "--data", str(photos)), "--mirror")


@pytest.mark.parametrize("command", ["plan", "search"])
def test_a_too_short_time_limit_is_refused_by_both(quick_advisor: Advisor, tmp_path: Path, command: str) -> None:
    said = ended(quick_advisor(command, "--candidates", CARD, "--time-limit", "2s"), 2)
    assert f"even the candidate that is quickest to evaluate, {CARD}, takes about" in said.err
    assert "give at least --time-limit" in said.err
    assert not (tmp_path / "runs").exists()


def test_the_split_and_the_price_of_heads_are_shown_before_anything_is_spent(advisor: Advisor, photos: Path) -> None:
    bare, trained = planned(advisor, *TWO_FORMS), planned(advisor, *TWO_FORMS, "--data", str(photos), *HEADS)
    assert trained["pictures"] == 20
    assert trained["price_s"] > bare["price_s"]
    split = trained["split"]
    assert split["grouping"] == {"source": "", "groups": 0, "largest": 0}
    assert set(split["images"]) == {"train", "validation", "holdout"}
    assert split["missing"] == {"train": [], "validation": [], "holdout": []}


def test_a_plan_says_what_fine_tuning_takes_and_counts_what_is_expected_to_be_worth_its_time(
    advisor: Advisor, photos: Path, done_once: Callable[..., None]
) -> None:
    asked = ("--candidates", CARD, "--data", str(photos))
    heads, everything = planned(advisor, *asked, *HEADS), planned(advisor, *asked, "--stop-below", "never")
    assert heads["fine_tuning_s"] == 0
    assert everything["fine_tuning_s"] == pytest.approx(everything["price_s"] - heads["price_s"], abs=0.2)
    text = shown(advisor, *asked, "--stop-below", "never")
    assert "Fine-tuning: about" in text
    assert "--training head leaves it out" in text
    done_once("plan")
    course, text = planned(advisor, *asked), shown(advisor, *asked)
    assert 0 < course["configurations_reached"] < everything["configurations_reached"] == course["configurations"]
    assert course["price_s"] < everything["price_s"]
    assert f"Split: {course['split']['images']['train']} images for training" in text
    assert "Groups: none found" in text
    assert "those that are expected to be worth it" in text


def test_the_configurations_are_a_table_from_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    found = package.plan(candidates=[CARD], threads=[1, 2], compressions=["float32"]).to_frame()
    assert list(found["card"].unique()) == [CARD]
    assert sorted(found["threads"].unique()) == [1, 2]
    assert (found["latency_median_ms"] > 0).all()
    assert found["skipped_because"].isna().all()


def test_the_options_that_were_given_are_set_and_all_others_are_comments(
    advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Made from the code of now: those below build/ are as old as the last installation, or were never made.
    write_schemas(tmp_path / "schemas")
    monkeypatch.setattr("advisor.api._options._find_schema", lambda: tmp_path / "schemas" / "request.schema.json")
    ended(advisor("init", "--budget", "50ms", "--threads", "1,2", "--offline"))
    text = (tmp_path / "advisor.yaml").read_text()
    written = {"schema_version": 1, "budget": "50ms", "threads": ["1", "2"], "offline": True}
    assert yaml.safe_load(text) == written
    assert all(f"# {name}:" in text for name in REQUEST_OPTIONS if name not in written)
    assert "# Latency limit that 9 of 10 runs meet" in text
    named = text.splitlines()[0].partition("$schema=")[2]
    assert not Path(named).is_absolute()
    schema = json.loads((tmp_path / named).read_text())  # editors find it
    jsonschema.validate(written, schema)
    assert set(schema["properties"]) == {"schema_version", *REQUEST_OPTIONS}
    monkeypatch.setattr("advisor.api._options._find_schema", lambda: tmp_path / "none")
    ended(advisor("init", "--force"))
    assert "$schema" not in (tmp_path / "advisor.yaml").read_text()


def test_a_search_reads_it_with_and_without_the_comments(advisor: Advisor, tmp_path: Path) -> None:
    assert advisor("init", "ask.yaml", "--budget", "50ms", "--licence", "MIT,Apache-2.0").code == 0
    file = tmp_path / "ask.yaml"
    asked = resolve({"budget": "50ms", "licence": "MIT,Apache-2.0"}).written
    assert resolve({}, file).written == asked
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines()]
    defaults = [line for line in lines if line.split(": ")[0] in REQUEST_OPTIONS]
    file.write_text("\n".join(defaults))
    assert resolve({}, file).written == asked


def test_the_name_of_the_file_adds_no_line_to_it(advisor: Advisor, tmp_path: Path) -> None:
    assert advisor("init", "a\nsize_budget: 9MB #.yaml", "--budget", "50ms").code == 0
    (file,) = tmp_path.glob("*.yaml")
    assert yaml.safe_load(file.read_text()) == {"schema_version": 1, "budget": "50ms"}


def test_a_file_is_replaced_by_force_only_and_no_wrong_option_is_written(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "advisor.yaml").write_text("budget: 10ms\n")
    refused(advisor("init"), "already exists")
    refused(advisor("init", "nowhere/advisor.yaml"), "the folder 'nowhere' does not exist")
    refused(advisor("init", "new.yaml", "--budget", "50"), "did you mean --budget 50ms?")
    assert not (tmp_path / "new.yaml").exists()
    assert advisor("init", "--force").code == 0


def test_a_term_is_explained_with_a_page_or_the_nearest_named_and_without_one_all_are_listed(advisor: Advisor) -> None:
    said = ended(advisor("explain", "hold-out"))
    assert said.out.startswith("hold-out\nImages that trained no candidate")
    assert said.out.endswith("More: docs/search-figures.md#how-to-read-the-figures\n")
    assert "hand-held phone" in advisor("explain", "capture", "conditions").out
    refused(advisor("explain", "holdut"), "did you mean 'holdout'?")
    assert "p90, pick, predicted" in " ".join(advisor("explain").out.split())
    assert len(advisor("explain", "--json").document["terms"]) == len(glossary.terms())
    assert all(term(name).text for name in ("P90", "90th percentile", "Top_1", "DYNAMIC-INT8"))


@pytest.mark.parametrize("explained", glossary.terms(), ids=lambda each: each.name)
def test_each_has_two_to_four_sentences_and_a_heading_that_exists(explained: Term, project: Path) -> None:
    assert 2 <= len(re.findall(r"\.(?:\s|$)", explained.text)) <= 4
    page, _, anchor = explained.page.partition("#")
    headings = re.findall(r"^#+ (.*)$", (project / "docs" / page).read_text(), re.MULTILINE)
    anchors = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert not anchor or anchor in anchors


def test_what_a_user_can_choose_by_name_is_explained() -> None:
    default_recipes = ("float32", "float16", "dynamic_int8", "weight_int8", "int8", "mixed_int8", "qat_int8")
    assert set(default_recipes) <= {recipe.name for recipe in RECIPES}
    for name in (*list_choosable(), *METRICS, *default_recipes):
        assert name in ("none", "cost-saved", "worst-group") or term(name)


def commands(group: Any, *names: str) -> Iterator[Any]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield pytest.param(command, id=" ".join((*names, name)))


@pytest.mark.parametrize("command", commands(typer.main.get_command(app)))
def test_every_command_has_quiet_and_json_and_tables_are_sorted(command: Any, request: pytest.FixtureRequest) -> None:
    options = {option for part in command.params for option in part.opts}
    assert {"--quiet", "-q"} <= options
    assert ("--json" in options) is (command.name != PROTOCOL)
    assert ({"--sort", "--filter"} <= options) is (request.node.callspec.id not in WITHOUT_TABLE)


@pytest.mark.parametrize(("command", "entry"), [("init --budget 50ms", "path"), ("explain p90", "terms")])
def test_standard_output_is_one_document(advisor: Advisor, command: str, entry: str) -> None:
    document = advisor(*command.split(), "--json").document
    assert next(iter(document)) == "schema_version"
    assert document[entry]
