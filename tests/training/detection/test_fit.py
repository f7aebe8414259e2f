"""A head for boxes, trained on the maps of a small backbone and run by LiteRT."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import StageError
from advisor.measurement import CentreFinder, Detections, Detector, average_precision, box_matches
from advisor.measurement._box_matches import centre_score
from advisor.tflite import cut_postprocess
from advisor.training import (
    Hyperparameters,
    LabelledImages,
    TrainableHead,
    TrainingStart,
    box_detector_head,
    centre_detector_head,
    convert_to_flatbuffer,
    convolve_separably,
    train,
)
from advisor.training._finetune.network import freeze_layers
from advisor.training._loop import Timer
from advisor.training._on_maps import fit as fit_module, kept as maps_module, train as train_module, with_maps
from advisor.training._on_maps.fit import fit
from advisor.training._on_maps.kept import KeptMaps, Photographs, keep_maps, keep_photographs
from advisor.training._on_maps.train import HeadKind, join_head
from tests.builders import must_fail, write_file
from tests.training.detection.squares import LEARNT, VIEW, fitted
from tests.training.nets import WIDE, halvings

pytestmark = pytest.mark.integration


def test_maps_are_kept_for_each_image_and_its_changed_copies(kept: KeptMaps) -> None:
    assert len(kept.labels) == LEARNT
    assert kept.copies == maps_module.MOST_COPIES
    assert [len(level) for level in kept.levels] == [LEARNT * (1 + kept.copies)] * len(kept.levels)
    assert not np.array_equal(kept.levels[0][0], kept.levels[0][LEARNT])
    assert not np.array_equal(kept.of_rows[0].boxes, kept.of_rows[LEARNT].boxes)


def test_copies_fit(boxed: LabelledImages, backbone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = 2 * sum(int(np.prod(output.shape[1:])) for output in backbone.outputs)
    few = LabelledImages(boxed.paths[:2], boxed.labels[:2])
    monkeypatch.setattr(maps_module, "MOST_BYTES", 5 * whole)
    assert keep_maps(backbone, few, VIEW, tmp_path, seed=0).copies == 1
    monkeypatch.setattr(maps_module, "MOST_BYTES", whole)
    must_fail(StageError, "the maps of 2 images take", keep_maps, backbone, few, VIEW, tmp_path, seed=0)


def true_of(boxed: LabelledImages) -> list[Detections]:
    return [Detections(one.boxes, one.labels, np.ones(1, np.float32)) for one in boxed.labels[LEARNT:]]


def reached(boxed: LabelledImages, backbone: Any, trained: TrainableHead, folder: Path) -> float:
    """Return the mAP@0.5 on the images that were not learnt from, and check that post-processing can be taken off."""
    data = trained.complete(convert_to_flatbuffer(join_head(backbone, trained)))
    path, again = folder / "detector.tflite", folder / "again.tflite"
    path.write_bytes(data)
    raw, process = cut_postprocess(data)
    again.write_bytes(process.put_back(raw))
    files = Detector(path, VIEW), Detector(again, VIEW)
    found, same = ([run(image) for image in boxed.paths[LEARNT:]] for run in files)
    for one, other in zip(found, same, strict=True):
        for field in ("boxes", "labels", "scores"):
            assert getattr(one, field).tolist() == getattr(other, field).tolist()
    return average_precision.score_boxes(true_of(boxed), found, [(WIDE, WIDE)] * len(found), 2).half.value


@pytest.fixture(scope="module")
def learnt(kept: KeptMaps) -> TrainableHead:
    return fitted(box_detector_head, kept, 2, Hyperparameters(epochs=60))


def test_a_head_learns_two_classes(boxed: LabelledImages, backbone: Any, learnt: TrainableHead, tmp_path: Path) -> None:
    assert reached(boxed, backbone, learnt, tmp_path) > 0.8


def test_what_tells_classes_stays_new(learnt: TrainableHead, kept: KeptMaps, tmp_path: Path) -> None:
    old, shapes = learnt.model.get_weights(), [level.shape[1:] for level in kept.levels]
    np.savez(tmp_path / "head.npz", *old)
    head = box_detector_head(shapes, 3)
    before, telling = head.model.get_weights(), set(map(id, head.telling))
    train_module.take_over(head, tmp_path / "head.npz")
    for weight, new, other in zip(head.model.weights, before, old, strict=True):
        assert np.array_equal(weight, new if id(weight) in telling else other)
    must_fail(
        StageError, "from head.npz", train_module.take_over, box_detector_head(shapes * 2, 3), tmp_path / "head.npz"
    )


@pytest.mark.slow
def test_equal_maps_and_seeds_give_equal_heads(kept: KeptMaps) -> None:
    heads = [fitted(box_detector_head, kept, 2, Hyperparameters(epochs=2)).model.get_weights() for _ in range(2)]
    assert all(map(np.array_equal, *heads))


@pytest.mark.slow
def test_a_rate_that_is_too_high_is_an_error(kept: KeptMaps) -> None:
    with pytest.raises(StageError, match="diverged"):
        fitted(box_detector_head, kept, 2, Hyperparameters(4, learning_rate=float("inf")))


def test_a_place_of_the_head_sees_four_places_each_way() -> None:
    head = box_detector_head([(16, 16, 4)], 2).model
    plain = np.zeros((1, 16, 16, 4), np.float32)
    marked = plain.copy()
    marked[0, 8, 8] = 100.0
    logits, other = (np.asarray(head(maps, training=False)[0]) for maps in (plain, marked))
    rows, columns = np.nonzero(np.abs(logits - other).max(axis=-1).reshape(16, 16))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (4, 12, 4, 12)


@pytest.mark.parametrize("side", [3, 5])
def test_a_separable_convolution_has_the_outputs_of_keras(side: int) -> None:
    import keras

    maps = keras.Input((9, 9, 4))
    own = keras.Model(maps, convolve_separably(maps, side))
    deep, wide = own.layers[1], own.layers[4]
    kernels = np.random.default_rng(0).normal(size=deep.kernel.shape).astype(np.float32)
    deep.set_weights([kernels])
    theirs = keras.layers.DepthwiseConv2D(side, padding="same", use_bias=False)
    seen = np.random.default_rng(1).normal(size=(2, 9, 9, 4)).astype(np.float32)
    theirs.build(seen.shape)
    theirs.set_weights([kernels])
    until = keras.Model(maps, deep.output)
    np.testing.assert_allclose(until(seen), theirs(seen), atol=1e-5)
    assert wide.kernel.shape == (1, 1, 4, 4)


@pytest.fixture
def photographs(boxed: LabelledImages, tmp_path: Path) -> Photographs:
    return keep_photographs(LabelledImages(boxed.paths[:LEARNT], boxed.labels[:LEARNT]), VIEW, tmp_path)


def test_pixels_are_changed_anew_each_time(boxed: LabelledImages, photographs: Photographs) -> None:
    draw, some = np.random.default_rng(0), np.array([3, 1])
    (plain,) = photographs.read_unchanged(some)
    assert np.array_equal(plain, np.stack([VIEW.read(boxed.paths[image]) for image in some]))
    ((first,), objects), ((second,), _) = (photographs.read_changed(some, draw) for _ in range(2))
    assert first.shape == second.shape == plain.shape
    assert not np.array_equal(first, second)
    assert [one.labels.tolist() for one in objects] == [boxed.labels[image].labels.tolist() for image in some]
    assert not np.array_equal(objects[0].boxes, boxed.labels[3].boxes)


@pytest.mark.usefixtures("uncompiled")
def test_fine_tuning_trains_the_upper_layers_too(
    boxed: LabelledImages, kept: KeptMaps, learnt: TrainableHead, photographs: Photographs, tmp_path: Path
) -> None:
    body = with_maps(halvings(pad=True))
    freeze_layers(body, 0.3)
    before = {layer.name: layer.get_weights() for layer in body.layers if layer.weights}
    trained, head = box_detector_head([level.shape[1:] for level in kept.levels], 2), learnt.model.get_weights()
    trained.model.set_weights(head)
    fit(trained, photographs, Hyperparameters(epochs=5), body)
    moved = [name for name, old in before.items() if not np.array_equal(body.get_layer(name).get_weights()[0], old[0])]
    assert moved == ["conv2", "wide2", "deep"]
    assert not np.array_equal(trained.model.get_weights()[0], head[0])
    assert reached(boxed, body, trained, tmp_path) > 0.8


@pytest.mark.usefixtures("uncompiled")
def test_a_training_without_time_has_one_step(kept: KeptMaps) -> None:
    head, told = box_detector_head([level.shape[1:] for level in kept.levels], 2), list[tuple[int, int]]()
    new = head.model.get_weights()
    whole = fit(head, kept, Hyperparameters(4), tell=lambda *epochs: told.append(epochs), timer=Timer(0.0))
    assert (whole, told) == (False, [(0, 4), (1, 4)])
    assert not all(map(np.array_equal, new, head.model.get_weights()))


@pytest.mark.usefixtures("uncompiled")
def test_an_epoch_that_would_end_late_does_not_begin(kept: KeptMaps, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[int]()
    head = box_detector_head([level.shape[1:] for level in kept.levels], 2)
    timer = Timer(None)
    monkeypatch.setattr(timer, "is_over", lambda more_s=0.0: more_s > 0.0 and len(told) > 2)
    assert not fit(head, kept, Hyperparameters(4), tell=lambda done, _: told.append(done), timer=timer)
    assert told == [0, 1, 2]
    monkeypatch.undo()
    assert fit(head, kept, Hyperparameters(2), timer=timer)


def _network_of_a_card() -> Any:
    import keras

    network = halvings(pad=True)
    return keras.Model(network.inputs[0], {"features": network.outputs[0]})


def test_a_training_goes_on_at_its_end(boxed: LabelledImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[tuple[Hyperparameters, Any, Any]]()
    few = LabelledImages(boxed.paths[:4], boxed.labels[:4])
    kind = HeadKind(32, lambda *given: replace(box_detector_head(*given), complete=bytes), Hyperparameters(8))

    def learn(head: Any, _data: Any, own: Any, maps: Any = None, tell: Any = None, timer: Any = None) -> bool:
        begun.append((own, head.model.get_weights(), maps and maps.get_weights()))
        for weight in [*head.model.trainable_weights, *(maps.trainable_weights if maps else ())]:
            weight.assign(weight + 1.0)
        return not timer.is_over()

    monkeypatch.setattr(train_module, "fit", learn)
    monkeypatch.setattr(train_module, "convert_to_flatbuffer", lambda _: b"")
    head = train(_network_of_a_card, VIEW, few, 2, kind, 0, tmp_path)
    head.write(path := tmp_path / "head.tflite")
    tuned = train(_network_of_a_card, VIEW, few, 2, kind, 0, tmp_path, TrainingStart(path, 0.5))
    tuned.write(path)
    goes_on = TrainingStart(path, 0.5, goes_on=True, seconds=0.0)
    ships = train(_network_of_a_card, VIEW, few, 2, kind, 0, tmp_path, goes_on)
    (_, new, _), (whole, _, published), (further, started, changed) = begun
    assert (further.epochs, further.learning_rate) == (7, whole.learning_rate)
    assert not any(map(np.array_equal, new[:1], started[:1]))
    assert all(map(np.array_equal, tuned.head, started))
    assert all(map(np.array_equal, tuned.backbone, changed))
    assert not all(map(np.array_equal, published, changed))
    assert not head.backbone
    assert (head.out_of_time, tuned.out_of_time, ships.out_of_time) == (False, False, True)


@pytest.mark.usefixtures("uncompiled")
def test_batch_norm_fits_kept_weights(boxed: LabelledImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "LIVE", 8)
    body, count, epochs = with_maps(halvings(pad=False, norms=True)), Hyperparameters.batch, 3
    data = keep_photographs(LabelledImages(boxed.paths[:count], boxed.labels[:count]), VIEW, tmp_path)
    head = box_detector_head([tuple(output.shape[1:]) for output in body.outputs], 2)
    fit(head, data, Hyperparameters(epochs, batch_statistics=True), body)
    norms = [body.get_layer(f"norm{number}") for number in range(3)]
    assert [bool(np.any(norm.moving_mean)) for norm in norms] == [False, False, True]
    assert {norm.momentum for norm in norms} == {0.99}
    draw = np.random.default_rng([0, epochs])  # the images of one more epoch, which has one batch
    (images,), _ = data.read_changed(draw.permutation(count), draw)
    norms[0].trainable = norms[1].trainable = False  # they keep their statistics in training, too
    by_file, by_batch = (head.model(body(images, training=each), training=each)[0] for each in (False, True))
    np.testing.assert_allclose(by_file, by_batch, atol=0.02)


def test_a_head_learns_both_classes(boxed: LabelledImages, backbone: Any, kept: KeptMaps, tmp_path: Path) -> None:
    learnt = fitted(centre_detector_head, kept, 2, Hyperparameters(epochs=60))
    path = write_file(tmp_path / "marker.tflite", convert_to_flatbuffer(join_head(backbone, learnt)))
    run = CentreFinder(path, VIEW)
    found = [run(image) for image in boxed.paths[LEARNT:]]
    assert centre_score(box_matches.match_centres(true_of(boxed), found), 2).mean.value > 0.8


def test_the_map_has_a_place_for_each_cell_of_the_finest_map(kept: KeptMaps, backbone: Any) -> None:
    head, places = centre_detector_head([level.shape[1:] for level in kept.levels], 2), kept.levels[0].shape[1:3]
    assert join_head(backbone, head).output["centres"].shape == (1, *places, 2)
    assert head.finish is not None
    head.finish(np.full((LEARNT, *places, 2), -9.0, np.float32), kept.labels)
    assert np.isfinite(head.model.get_weights()[-1]).all(), "nothing was found"
