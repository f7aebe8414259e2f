import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from advisor.compression._recipes import Sizes
from advisor.core import Interval
from advisor.engine import Compression, FileAgreement, RecipeResult, compress, prepare_compression as ask
from advisor.engine._compress.compress import _score_forms
from advisor.engine._compress.file_kinds import Classifiers
from advisor.engine._compress.results import DelegatedPart, Speed
from advisor.isolation import ChildPool
from advisor.reporting import print_compression
from advisor.tflite import Metadata
from tests.compression.user_model.questions import CLASSES
from tests.measurement.small_models import of_a_newer_runtime

pytestmark = pytest.mark.integration


def _silent(_text: str) -> None:
    """Show nothing."""


def test_forms_carry_the_files_description_and_their_figures(described: Path, photos: Path, tmp_path: Path) -> None:
    question = ask(described, ["int8", "rounded"], data=photos, to=tmp_path / "forms")
    found = compress(question, _silent, latency=False)
    assert [form.recipe for form in found.forms] == ["float32", "int8", "rounded"]
    assert all(form.status == "ok" for form in found.forms)
    int8 = found.forms[1]
    said = Metadata.read(Path(int8.path).read_bytes())
    assert (said.labels, said.licence, said.mean) == (CLASSES, "MIT", (127.5,))
    assert int8.agreement.accuracy is not None
    assert int8.agreement.drop is not None
    assert int8.agreement.images == len(question.images.scored)
    assert int8.sizes.size_bytes == Path(int8.path).stat().st_size
    assert int8.taken.operators == 8
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.usefixtures("here")
def test_a_recipe_that_does_not_apply_is_a_row_and_no_labels_give_agreement(described: Path, tmp_path: Path) -> None:
    found = compress(ask(described, ["qat_int8", "float16"], to=tmp_path / "forms"), _silent, latency=False)
    assert [form.status for form in found.forms] == ["ok", "skipped", "ok"]
    assert "labelled images" in found.forms[1].reason
    assert [form.recipe for form in found.good] == ["float16"]
    agreement = found.forms[2].agreement
    assert agreement.accuracy is None
    assert agreement.share.value == 1
    assert agreement.snr_db is not None
    assert agreement.snr_db > 30
    assert any("agreement with float is no accuracy" in note for note in found.notes)


def test_a_form_that_the_runtime_cannot_run_is_skipped(described: Path, tmp_path: Path) -> None:
    question = ask(described, ["float16"], to=tmp_path / "forms")
    made = tmp_path / "newer.tflite"
    made.write_bytes(of_a_newer_runtime(described.read_bytes()))
    forms = [RecipeResult("float32", "ok", path=str(described)), RecipeResult("float16", "ok", path=str(made))]
    with ChildPool(tmp_path / "log.txt") as pool:
        _, refused = _score_forms(pool, question, forms, _silent)
    assert refused.status == "skipped"
    assert "this runtime cannot run it: newer.tflite: LiteRT cannot load the model" in refused.reason


@pytest.mark.parametrize("columns", [80, 130])
def test_the_table_fits_into_the_terminal(columns: int) -> None:
    share = Interval(0.987, 0.972, 0.994)
    whole = RecipeResult(
        "int8", "ok", "", "forms/net-int8.tflite", 1.0, Sizes(3_456_789, 2_345_678, 2_234_567, 1_000_000),
        DelegatedPart(66, 66, 1.0, 1, {}), FileAgreement(500, share, 31.0, share, share),
        Speed(12.34, 12.1, 12.6, 46_000_000, "stable"),
    )  # fmt: skip
    said = Console(file=io.StringIO(), width=columns)
    forms = (replace(whole, recipe="float32"), whole)
    print_compression(Compression("net.tflite", "forms", "photos", "photos", "xnnpack", 0.5, forms), said)
    lines = said.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= columns
    assert ("memory MB" in "".join(lines)) == (columns == 130)


def test_answers_are_judged_against_float_and_truth() -> None:
    floats = np.eye(4, dtype=np.float32)
    found = Classifiers().compare(floats[[0, 1, 2, 2]], floats, (0, 1, 2, 3))
    assert found.share.value == 0.75
    assert found.accuracy.value == 0.75
    assert found.drop.value == 0.25
    assert found.snr_db == pytest.approx(10 * np.log10(4 / 2))
