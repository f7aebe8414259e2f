"""The graph of a variant: which stages it has, in which order, what they share, and the models that they make."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.catalog import Catalogue
from advisor.compression import RECIPES
from advisor.core import HeadFacts, TrainingName
from advisor.datasets import Dataset, LabelledImage, Split, SplitPart
from advisor.datasets._dataset import compute_fingerprint
from advisor.devices import DeviceTarget
from advisor.engine import Images, Pool, Purpose, Question, Results, Role, StageName, VariantStages, Workload, cut_stage
from advisor.engine._pipeline.graph import make_variant, with_all_before
from advisor.engine._pipeline.materials import FloatModel, LocalTarget
from advisor.engine._pipeline.stages.backbone import convert_stage
from advisor.engine._pipeline.stages.head import TrainedHead, fit_head, refit_shipped_head
from advisor.engine._preview import overview_of
from advisor.tasks.detection import DETECTION
from advisor.tflite import FEATURES
from tests.engine.pipeline.boxed import CAT, DOG, boxed_images
from tests.engine.pipeline.walking import materials
from tests.engine.plans import image_counts
from tests.tables import with_cases

CARD = Catalogue.load()["mobilenet_v2_1.0_224"]
NAMES = tuple(recipe.name for recipe in RECIPES)
TRAINED = Workload((TrainingName.HEAD,), ("float32", "int8"), image_counts(1000, 200, 250))
PUBLISHED = Workload((TrainingName.NONE,), ("float32", "int8"))
BOXED = replace(TRAINED, question=Question(DETECTION.name))
CLASSES = ("a", "b")


def names(stages: VariantStages) -> Counter[str]:
    return Counter(stage.name.value for stage in with_all_before(stages.evaluation))


@with_cases
def test_a_variant_has_its_stages(training: str, form: str, images: str, expected: dict[str, int]) -> None:
    workload = {"classes": TRAINED, "none": PUBLISHED, "boxes": BOXED}[images]
    assert names(VariantStages(CARD, training, form, workload)) == expected


def test_a_head_needs_no_process_with_tensorflow_unless_the_card_has_no_graph_file_of_its_side() -> None:
    stages = VariantStages(CARD, TrainingName.HEAD, "int8", TRAINED)
    pools = {stage.resources.pool for stage in with_all_before((*stages.evaluation, *stages.judging))}
    assert not pools & {Pool.HEAVY, Pool.TRAINERS}
    assert convert_stage(CARD.at(320)).resources.pool is Pool.HEAVY


@pytest.mark.parametrize("training", [TrainingName.HEAD, TrainingName.FINETUNE_TOP])
def test_no_stage_of_the_file_that_learns_from_all_images_reads_the_holdout_to_judge_it(training: str) -> None:
    workload = replace(TRAINED, trainings=(TrainingName.HEAD, TrainingName.FINETUNE_TOP))
    stages = VariantStages(CARD, training, "int8", workload)
    learning = {stage for stage in with_all_before((stages.on_all,)) if stage.scope.purpose == Purpose.ALL}
    assert {StageName.CALIBRATE, StageName.COMPRESS, StageName.CONFIDENCE} < {stage.name for stage in learning}
    assert not learning & set(with_all_before((*stages.evaluation, *stages.judging)))
    for role in (Role.HOLDOUT, Role.CAPTURED):
        with pytest.raises(ValueError, match="has learnt from the hold-out is not judged on it"):
            stages.scoring(stages.on_all.scope, stages.on_all, role, 1.0)
    assert stages.scoring(stages.on_all.scope, stages.on_all, Role.VALIDATION, 1.0).name is StageName.SCORE


@pytest.mark.parametrize(("purpose", "changed"), [(Purpose.SHIP, 1), (Purpose.ALL, 2)])
def test_a_final_head_of_other_labels_is_another_one(tmp_path: Path, purpose: Purpose, changed: int) -> None:
    """Image 1 is of validation, image 2 of the hold-out: the compared head has learnt from neither."""
    workload = Workload((TrainingName.HEAD,), ("float32",), _images(()).counts)
    chosen = TrainedHead(Path(), "b" * 64, HeadFacts("last_layer", 0.1, False, 0.9, 100))
    results = Results(
        {cut_stage(CARD, FEATURES): FloatModel(Path(), "a" * 64), fit_head(CARD, TrainingName.HEAD, workload): chosen}
    )

    def inputs(images: Images) -> object:
        given = materials(tmp_path, images, weights={CARD.name: None})
        return refit_shipped_head(CARD, workload, purpose).inputs(given, results)

    known = _images(())
    row = known.dataset.images[changed]
    files = tuple(replace(each, label=1 - row.label) if each is row else each for each in known.dataset.images)
    other = replace(known, dataset=replace(known.dataset, images=files))
    assert inputs(known) == inputs(_images(()))
    assert inputs(known) != inputs(other)


def test_other_runtimes_and_an_interpreter_run_the_file_that_ships_if_they_take_its_form() -> None:
    onnx = LocalTarget("host:onnxruntime", DeviceTarget("cpu-x1", "onnxruntime", "cpu", precisions=("float32", "int8")))
    chrome = LocalTarget("chromium", DeviceTarget("litert-wasm", "litert-web", "cpu", precisions=("float32", "int8")))
    micro = LocalTarget("stm32h743", DeviceTarget("tflm", "tflite-micro", "cpu", precisions=("int8",)))
    workload = replace(TRAINED, local_targets=(onnx, chrome, micro, replace(micro, device="esp32-s3")))
    floats, rounded = (VariantStages(CARD, TrainingName.HEAD, form, workload) for form in ("float32", "int8"))
    assert [names(floats)[name] for name in ("twin", "runtime", "arena")] == [1, 2, 0]
    assert [names(rounded)[name] for name in ("twin", "runtime", "arena")] == [1, 2, 1]
    assert all(rounded.ships in stage.after for stage in rounded.in_other_runtimes)
    assert len({*rounded.in_other_runtimes, *floats.in_other_runtimes}) == 5
    (large, small) = (
        next(stage for stage in with_all_before(each.in_other_runtimes) if stage.name is StageName.ONNX)
        for each in (floats, rounded)
    )
    assert large.resources.memory_bytes > small.resources.memory_bytes > 1e9


def test_stages_that_hold_the_features_of_all_images_may_take_the_memory_of_these() -> None:
    few, many = (
        {stage.name: stage.resources for stage in with_all_before((*stages.evaluation, stages.with_unknown))}
        for stages in (
            VariantStages(CARD, TrainingName.HEAD, "float32", replace(TRAINED, images=image_counts(images, 200, 250)))
            for images in (1000, 75_000)
        )
    )
    for name in (StageName.HEAD, StageName.REFIT, StageName.EXPECTATION, StageName.UNKNOWN):
        more = many[name].limits.memory_bytes - few[name].limits.memory_bytes
        assert more == many[name].memory_bytes - few[name].memory_bytes
        assert 74_000 * 2 * 4 * 3488 < more < 3.5e9  # twice the features of EfficientNet-Lite0
    assert many[StageName.JOIN] == few[StageName.JOIN]


def test_a_first_look_reads_some_images_and_robust_accuracy_those_under_capture_conditions_too() -> None:
    found = names(VariantStages(CARD, TrainingName.HEAD, "int8", replace(TRAINED, question=Question(robust=True))))
    assert (found["features"], found["capture"]) == (6, 1)
    workload = replace(TRAINED, trainings=(TrainingName.HEAD_SUBSET, TrainingName.HEAD))
    stages = VariantStages(CARD, TrainingName.HEAD_SUBSET, "float32", workload)
    assert stages.ships == stages.compared
    assert {stage.scope.training for stage in with_all_before(stages.evaluation)} == {"", TrainingName.HEAD_SUBSET}
    assert stages.judging == ()


def test_every_trial_of_the_hyperparameters_comes_after_those_before_it() -> None:
    workload = replace(
        TRAINED, trainings=(TrainingName.HEAD, TrainingName.FINETUNE_TOP), question=Question(tune_training=3)
    )
    ships = make_variant(CARD, TrainingName.FINETUNE_TOP, "float32", Purpose.SHIP, workload)
    tuned = [stage for stage in with_all_before([ships]) if stage.name is StageName.FINETUNE_TOP]
    details = [stage.scope.detail or stage.scope.purpose for stage in tuned]
    assert details == ["trial 0", "trial 1", "trial 2", "compare", "ship"]
    assert [sum(before in stage.after for before in tuned) for stage in tuned] == [0, 1, 2, 3, 4]


def test_a_recipe_that_decides_on_scores_decides_on_the_file_that_is_compared() -> None:
    ships = make_variant(CARD, TrainingName.HEAD, "mixed_int8", Purpose.SHIP, TRAINED)
    assert make_variant(CARD, TrainingName.HEAD, "mixed_int8", Purpose.COMPARE, TRAINED) in ships.after
    plain = make_variant(CARD, TrainingName.HEAD, "int8", Purpose.SHIP, TRAINED)
    assert make_variant(CARD, TrainingName.HEAD, "int8", Purpose.COMPARE, TRAINED) not in plain.after


def test_forms_share_one_calibration_and_what_ships_reuses_that_of_the_compared_file() -> None:
    workload = replace(TRAINED, recipes=("float32", "dynamic_int8", "int8", "mixed_int8"))
    found = {
        name: set(with_all_before(VariantStages(CARD, TrainingName.HEAD, name, workload).evaluation))
        for name in workload.recipes
    }
    calibrations = {form: {s for s in some if s.name is StageName.CALIBRATE} for form, some in found.items()}
    assert not calibrations["float32"]
    assert calibrations["dynamic_int8"] == calibrations["int8"] == calibrations["mixed_int8"]
    ships = next(stage for stage in calibrations["int8"] if stage.scope.purpose == Purpose.SHIP)
    assert calibrations["int8"] - {ships} <= set(ships.after)


@pytest.mark.parametrize("training", [TrainingName.HEAD, TrainingName.FINETUNE_TOP])
@given(recipe=st.sampled_from(NAMES), robust=st.booleans(), trials=st.integers(0, 2))
def test_stages_come_in_the_order_of_their_names(training: str, recipe: str, robust: bool, trials: int) -> None:
    workload = Workload(
        (TrainingName.HEAD, TrainingName.FINETUNE_TOP),
        NAMES,
        TRAINED.images,
        Question(robust=robust, tune_training=trials),
    )
    order = list(StageName)
    stages = VariantStages(CARD, training, recipe, workload)
    for stage in with_all_before([*stages.evaluation, *stages.judging]):
        for before in stage.after:
            judges = stage in stages.judging and before == stages.ships  # the finished file answers once more
            assert judges or order.index(before.name) <= order.index(stage.name)


def test_only_finalists_of_images_are_judged_and_the_users_own_holdout_needs_no_estimate_of_new_conditions() -> None:
    assert VariantStages(CARD, TrainingName.NONE, "int8", PUBLISHED).judging == ()
    asked = replace(TRAINED, question=Question(robust=True))
    plain, robust = (VariantStages(CARD, TrainingName.HEAD, "int8", each).judging for each in (TRAINED, asked))
    assert [stage.name for stage in plain] == [StageName.SCORE]
    assert [stage.name for stage in robust] == [StageName.SCORE, StageName.CAPTURE]
    assert names(VariantStages(CARD, TrainingName.HEAD, "int8", replace(TRAINED, own_holdout=True)))["expectation"] == 0


def test_a_detector_to_ship_learns_from_more_images_than_one_to_compare(tmp_path: Path) -> None:
    given = materials(tmp_path, boxed_images(), weights={CARD.name: None})
    made = {purpose: DETECTION.model(CARD, TrainingName.HEAD, purpose, BOXED) for purpose in Purpose}
    stages = {**made, Purpose.SHIP: made[Purpose.SHIP].after[0]}
    done = Results({made[Purpose.COMPARE]: FloatModel(tmp_path, "1")})
    learnt = {purpose: stage.inputs(given, done)["pictures"] for purpose, stage in stages.items()}
    assert learnt == {
        Purpose.COMPARE: given.part(Role.TRAIN).fingerprint,
        Purpose.SHIP: given.part(Role.LEARNT).fingerprint,
        Purpose.ALL: given.part(Role.ALL).fingerprint,
    }
    assert stages[Purpose.COMPARE] != stages[Purpose.SHIP]
    assert stages[Purpose.SHIP].cost_s < stages[Purpose.ALL].cost_s


def test_another_size_of_the_input_is_another_detector(tmp_path: Path) -> None:
    given = materials(tmp_path, boxed_images(), weights={CARD.name: None})
    small, large = (DETECTION.model(card, TrainingName.HEAD, Purpose.COMPARE, BOXED) for card in (CARD, CARD.at(320)))
    assert small.inputs(given, Results({})) != large.inputs(given, Results({}))


def test_only_a_classifier_of_the_users_classes_gets_a_temperature() -> None:
    classifier = VariantStages(CARD, TrainingName.HEAD, "int8", TRAINED)
    adjusted, *others = classifier.ships.after
    assert adjusted.name == StageName.ADJUST
    assert others == [classifier.scored, classifier.head, classifier.reference.scored]
    assert classifier.made in adjusted.after
    assert classifier.timed.after == (classifier.made,)
    for stages in (
        VariantStages(CARD, TrainingName.NONE, "int8", PUBLISHED),
        VariantStages(CARD, TrainingName.HEAD, "int8", BOXED),
        VariantStages(CARD, TrainingName.HEAD_SUBSET, "float32", TRAINED),
    ):
        assert stages.ships == stages.made


def _images(groups: tuple[int, ...]) -> Images:
    files = tuple(LabelledImage(Path(f"{index}.jpg"), index % 2, f"{index:02}") for index in range(8))
    dataset = Dataset(Path(), CLASSES, files, (), compute_fingerprint(CLASSES, files))
    return Images(dataset, Split((0, 3, 5, 6), (1, 4), (2, 7), 0), groups=groups)


def test_each_part_has_the_objects_of_its_images_if_there_are_any() -> None:
    images = boxed_images()
    part = images.part(Role.VALIDATION)
    assert part.objects == ((CAT,), (CAT, DOG)) * 2
    assert part.between(1, 3).objects == ((CAT, DOG), (CAT,))
    assert images.part(Role.LEARNT).objects == part.objects * 2
    part = _images(()).part(Role.TRAIN)
    assert (part.objects, part.between(1, 3).objects) == ((), ())


def test_another_place_or_class_of_a_box_is_another_fingerprint_of_its_part_and_groups_leave_it() -> None:
    objects = [(CAT,)] * 12
    found = []
    for box in (CAT, (0, 0.1, 0.1, 0.3, 0.31), (1, *CAT[1:])):
        images = boxed_images([(box,), *objects[1:]])
        found.append([images.part(role).fingerprint for role in (Role.TRAIN, Role.LEARNT, Role.VALIDATION)])
    train, learnt, validation = (set(each) for each in zip(*found, strict=True))
    assert (len(train), len(learnt), len(validation)) == (3, 3, 1)
    one, other = (_images(groups).part(Role.TRAIN) for groups in ((), (0, 1, 2, 3, 3, 3, 4, 1)))
    assert one.groups == ()
    assert one.fingerprint == other.fingerprint


def test_boxes_give_the_classes_and_are_counted_by_class_and_part() -> None:
    images = boxed_images()
    assert images.classes == ("cat", "dog")
    assert _images(()).classes == CLASSES
    assert images.boxes.counts == {"cat": 12, "dog": 6}
    assert images.boxes.among([0, 2, 3]) == {"cat": 3, "dog": 1}
    assert overview_of(images).boxes == {part: {"cat": 4, "dog": 2} for part in SplitPart}
    assert overview_of(_images(())).boxes == {}
