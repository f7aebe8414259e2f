import shutil
from pathlib import Path
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.compression import require_float
from advisor.core import UsageError
from advisor.datasets import Survey, class_order
from advisor.datasets._split import draw_split
from advisor.engine import RecipeResult, prepare_compression as ask
from advisor.engine._compress.image_choice import PHOTOGRAPHS
from advisor.tflite import Metadata, to_float16
from tests.builders import must_fail, write_file
from tests.compression.user_model.questions import Asked
from tests.measurement import small_models
from tests.tables import with_cases
from tests.tflite.graphs import edited


def test_the_file_says_how_it_reads_images(described: Path, asked: Asked) -> None:
    question = asked(described)
    assert question.spec.size == 32
    assert question.spec.mean == (127.5,) * 3
    assert [one.name for one in question.recipes] == ["float32", "int8"]
    assert question.images.calibration_source == PHOTOGRAPHS


def test_without_a_word_of_its_own_the_normalisation_is_asked_for(plain: Path, asked: Asked) -> None:
    caught = must_fail(UsageError, "does not say how its images are normalised", asked, plain)
    assert "--mean 127.5 --std 127.5" in caught.hint
    view = asked(plain, mean=(0.0,), std=(255.0,)).spec
    assert (view.mean, view.std) == ((0.0,) * 3, (255.0,) * 3)


@with_cases
def test_unfit_options(described: Path, asked: Asked, recipe: str, options: dict[str, Any], message: str) -> None:
    must_fail(UsageError, message, asked, described, recipe, **options)


def test_recipes_start_from_float_with_a_closed_batch(described: Path, asked: Asked, tmp_path: Path) -> None:
    def open_batch(model: Any) -> None:
        model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]].shapeSignature = [-1, 32, 32, 3]

    given, metadata = described.read_bytes(), Metadata.read(described.read_bytes())
    assert metadata is not None
    described.write_bytes(metadata.write_into(edited(to_float16(given), open_batch)))
    question = asked(described)
    assert question.model == tmp_path / "forms" / "net-float32.tflite"
    assert question.path_of("float32") == question.model
    assert question.path_of("int8").name == "net-int8.tflite"
    assert Metadata.read(question.model.read_bytes()) == metadata
    require_float(question.model.read_bytes(), "int8")


def test_a_file_that_recipes_can_start_from_is_not_copied(described: Path, asked: Asked) -> None:
    question = asked(described)
    assert (question.model, question.stem) == (described, "")
    assert not list(question.folder.iterdir())


def test_forms_that_are_there_are_not_replaced(described: Path, asked: Asked, tmp_path: Path) -> None:
    write_file(tmp_path / "forms" / "net-int8.tflite", b"mine")
    must_fail(UsageError, r"already contains net-int8\.tflite", asked, described)
    asked(described, force=True)


def test_a_quantized_file_can_be_judged(described: Path, photos: Path) -> None:
    metadata = Metadata.read(described.read_bytes())
    assert metadata is not None
    described.write_bytes(metadata.write_into(small_models.dynamic_int8(described.read_bytes())))
    assert ask(described, (), data=photos, judged_only=True).model == described


@pytest.mark.parametrize(("code", "kind"), [(b"FlexErf", "select TensorFlow"), (b"Nobody", "custom")])
def test_operators_of_others_are_refused(plain: Path, asked: Asked, code: bytes, kind: str) -> None:
    def foreign(model: Any) -> None:
        named = model.operatorCodes[0]
        named.builtinCode = named.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        named.customCode = code
        for operator in model.subgraphs[0].operators:
            if operator.opcodeIndex == 0:
                operator.builtinOptionsType, operator.builtinOptions = 0, None

    plain.write_bytes(edited(plain.read_bytes(), foreign))
    must_fail(UsageError, f"{kind} operators.*{code.decode()}", asked, plain)


def test_too_few_calibration_images_are_counted(described: Path, asked: Asked, photos: Path) -> None:
    (photos / "ant" / "broken.png").write_bytes(b"no image")
    for file in sorted((photos / "ant").glob("[0-9]*.png"))[1:]:
        file.unlink()
    with pytest.raises(UsageError, match=r"1 readable images of 2 .*and 10 are needed; .*broken.png"):
        asked(described, calibration=photos / "ant")


def test_labelled_images_are_split_as_a_search_splits_them(described: Path, asked: Asked, photos: Path) -> None:
    images = asked(described, data=photos).images
    dataset = Survey.read(photos).dataset
    parts = draw_split(dataset, 0)
    assert images.scored == tuple(dataset.images[index].path for index in parts.holdout)
    assert not set(images.calibration) & set(images.scored)
    assert not set(images.training.paths + images.training.validation_paths) & set(images.scored)


def test_what_a_recipe_chooses_by_is_not_learnt_or_judged_on(described: Path, asked: Asked, photos: Path) -> None:
    held = set(asked(described, data=photos).images.scored)
    images = asked(described, "int8", "mixed_int8", data=photos).images
    chosen_on = set(images.training.validation_paths)
    assert chosen_on | set(images.scored) == held
    assert len(chosen_on) == len(images.scored) == len(held) / 2
    assert "4 of the 8 images held out" in images.scored_source


def test_own_calibration_leaves_all_to_judge(described: Path, asked: Asked, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "ant", tmp_path / "others")
    images = asked(described, data=photos, calibration=tmp_path / "others").images
    assert len(images.scored) == 48
    assert len(images.calibration) == 12


def test_folders_find_their_class_by_name() -> None:
    assert class_order(["Bee", "ant"], ["ant", "bee", "cat"], 3) == (1, 0)
    must_fail(UsageError, "no class 'fox'", class_order, ["fox"], ["ant"], 1)
    must_fail(UsageError, "2 class folders.*3 classes", class_order, ["a", "b"], [], 3)


@with_cases
def test_what_a_recipe_did_is_a_sentence(notes: dict[str, Any], text: str) -> None:
    assert RecipeResult("int8", "ok", notes=notes).notes_text == text
