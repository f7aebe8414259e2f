import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from advisor.core import StageError
from advisor.datasets import InputSpec
from advisor.measurement import label_precision, predict
from advisor.training import WEIGHTS_FILE, Finetuning, TrainingTime, _loop as loop, epochs_done, train_head
from advisor.training._augmentation import Augmentation
from advisor.training._finetune import maps, to_tflite
from advisor.training._finetune.finetune import STATE, Finetuned, _Session, finetune
from advisor.training._finetune.network import CHECKED, FinetuneData, first_head, level_layers, with_levels
from advisor.training._head import Head
from tests.builders import must_fail
from tests.training import nets

pytestmark = pytest.mark.integration

Data = tuple[list[Path], list[int]]  # Files and labels
Tuned = tuple[Any, Finetuned]  # The backbone, and the result

KNOBS = Finetuning(
    trained=1.0,
    epochs=6,
    patience=6,
    learning_rate=0.01,
    batch=16,
    averaging=20.0,
    head_rate=1.0,
    lowest_rate=1.0,
    label_smoothing=0.1,
    augmentation=Augmentation(crop=0.9, colour=0.1, mixup=0.0),
)
SHORT = replace(KNOBS, epochs=2)
ONE = replace(KNOBS, epochs=1, trained=0.5)
ON_MAPS = replace(KNOBS, cached=True, copies=1, trained=0.5, learning_rate=0.03)


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """``tuned`` has compiled steps, as fixtures of the module are made before this one."""
    with nets.uncompiled_steps():
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return nets.stripes(tmp_path_factory.mktemp("stripes"), 100)


@pytest.fixture(scope="module")
def few(data: Data) -> Data:
    """Images enough where nothing depends on what is learnt: an epoch has two steps."""
    return data[0][:32], data[1][:32]


@cache
def _at_start(paths: tuple[Path, ...]) -> np.ndarray:
    """Return the features of the images before any training."""
    return nets.features(nets.backbone(), list(paths))


def _data(data: Data) -> FinetuneData:
    """Return what a fine-tuning learns from, with a head that is chosen once."""
    images = FinetuneData(_at_start(tuple(data[0])), *data, nets.VIEW, _validation(data))
    return replace(images, head=_chosen_head(tuple(data[0]), tuple(data[1])))


@cache
def _chosen_head(paths: tuple[Path, ...], labels: tuple[int, ...]) -> Head:
    rows = sorted({*range(len(paths))} - {*_validation((list(paths), list(labels)))})
    return train_head(_at_start(paths)[rows], [labels[row] for row in rows], 2, KNOBS.seed, last=8)


def _validation(data: Data) -> list[int]:
    """Return an eighth of the images, half of them of each class."""
    return [row for row in range(len(data[0])) if row % 16 < 2]


def _run(data: Data, folder: Path, hyperparameters: Finetuning = KNOBS, **more: Any) -> Tuned:
    backbone = nets.backbone()
    return backbone, finetune(backbone, _data(data), hyperparameters, folder, **more)


def _interrupted(data: Data, folder: Path, hyperparameters: Finetuning, maps: Path | None = None) -> None:
    """Begin a run that ends after its first epoch, where a killed process would end."""
    end_epoch = _Session.end_epoch

    def end(session: _Session, losses: Sequence[Any]) -> None:
        end_epoch(session, losses)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Session, "end_epoch", end)
        must_fail(KeyboardInterrupt, "", _run, data, folder, hyperparameters, maps=maps)


@contextmanager
def _ticking() -> Iterator[None]:
    """Show another second at each look at the clock: how busy the machine is changes nothing."""
    ticks = iter(range(10_000))
    with pytest.MonkeyPatch.context() as patch:
        for each in (loop, sys.modules[finetune.__module__]):
            patch.setattr(each, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
        yield


def _losses(result: Finetuned) -> list[float]:
    return [row["loss"] for row in result.history]


def _kernel(backbone: Any, layer: str) -> np.ndarray:
    return np.asarray(backbone.get_layer(layer).get_weights()[0])


def _accuracy(backbone: Any, result: Finetuned, data: Data, rows: Sequence[int]) -> float:
    logits = nets.features(backbone, [data[0][row] for row in rows]) @ result.weights + result.bias
    return float((logits.argmax(axis=1) == np.array(data[1])[rows]).mean())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the checkpoints of ``tuned``."""
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tuned(data: Data, folder: Path) -> Tuned:
    return _run(data, folder)


@pytest.fixture(scope="module")
def short_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the checkpoints of ``short``."""
    return tmp_path_factory.mktemp("short")


@pytest.fixture(scope="module")
def short(few: Data, short_folder: Path) -> Tuned:
    """A run with neither an interruption nor a limit."""
    with nets.uncompiled_steps():
        return _run(few, short_folder, SHORT)


def test_it_learns_what_the_head_alone_could_not_and_returns_the_best_epoch(tuned: Tuned, data: Data) -> None:
    backbone, result = tuned
    assert result.validation_accuracy > max(result.start_accuracy, 0.9)
    assert _accuracy(backbone, result, data, _validation(data)) == pytest.approx(result.validation_accuracy, abs=1e-6)
    assert result.history[result.best_epoch]["validation_accuracy"] == result.validation_accuracy


def test_the_file_answers_as_its_parts_and_norms_keep_statistics(tuned: Tuned, data: Data, tmp_path: Path) -> None:
    backbone, result = tuned
    (tmp_path / "tuned.tflite").write_bytes(to_tflite(backbone, result))
    found = predict(tmp_path / "tuned.tflite", data[0][:20], nets.VIEW)
    expected = softmax(nets.features(backbone, data[0][:20]) @ result.weights + result.bias, axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for layer in ("norm0", "norm1"):
        old, new = (net.get_layer(layer).get_weights() for net in (nets.backbone(), backbone))
        np.testing.assert_array_equal(old[2:], new[2:])
        assert (old[0] != new[0]).any()


@pytest.mark.parametrize("knobs", [SHORT, replace(ON_MAPS, epochs=2)], ids=["images", "maps"])
def test_an_interrupted_run_ends_like_any_other(knobs: Finetuning, few: Data, short: Tuned, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    _, whole = _run(few, tmp_path / "whole", knobs, maps=maps) if knobs.cached else short
    _interrupted(few, tmp_path, knobs, maps)
    done, epochs, share = epochs_done(tmp_path, knobs) or (0, 0, 0.0)
    assert (done, epochs) == (1, 2)
    assert 0.5 <= share < 1
    begun = json.loads((tmp_path / STATE).read_text())["history"]
    _, result = _run(few, tmp_path, knobs, maps=maps)
    assert list(result.history[:1]) == begun
    np.testing.assert_allclose(_losses(result), _losses(whole), rtol=1e-3)


def test_it_stops_when_it_no_longer_gains_and_returns_the_start_if_nothing_is_better(few: Data, tmp_path: Path) -> None:
    backbone, result = _run(few, tmp_path, replace(KNOBS, epochs=6, patience=1, learning_rate=1e-12))
    assert len(result.history) == 3, "not before half of the epochs"
    assert result.validation_accuracy == result.start_accuracy
    assert result.best_epoch == -1
    np.testing.assert_allclose(nets.features(backbone, few[0][:20]), _data(few).features[:20], atol=1e-5)


@pytest.mark.parametrize(("knobs", "last", "kept"), [(KNOBS, 0.8, 1), (ON_MAPS, 0.88, 2), (ON_MAPS, 0.2, 1)], ids=str)
def test_of_epochs_that_validation_cannot_tell_apart_the_later_one_is_kept(
    knobs: Finetuning, last: float, kept: int, few: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter((0.5, 0.9, 0.9, last))
    monkeypatch.setattr(_Session, "_validate", lambda _: next(found))
    _, result = _run(few, tmp_path, replace(knobs, epochs=3, patience=3, learning_rate=1e-12))
    assert result.best_epoch == kept


def test_it_goes_on_while_it_gains_though_below_its_start(few: Data, tmp_path: Path) -> None:
    """A cosine gains most at its end: a start that looks better than anything that can come ends nothing."""
    knobs = replace(KNOBS, epochs=4, patience=2)
    _interrupted(few, tmp_path, knobs)
    state = json.loads((tmp_path / STATE).read_text())
    (tmp_path / STATE).write_text(json.dumps({**state, "best": 2.0, "best_epoch": 0}))
    _, result = _run(few, tmp_path, knobs)
    assert result.best_epoch == 0, "nothing after the first epoch surpasses it"
    found = [row["validation_accuracy"] for row in result.history]
    assert len(found) == 4 or len(found) - 1 - found.index(max(found)) >= 2


def test_what_ships_goes_on_with_the_validation_part_too(tuned: Tuned, folder: Path, few: Data, tmp_path: Path) -> None:
    backbone, more = _run(few, tmp_path, after=folder / WEIGHTS_FILE)
    assert len(more.history) == KNOBS.going_on().epochs == 2
    kernels = [_kernel(net, "conv1") for net in (nets.backbone(), tuned[0], backbone)]
    assert 0 < np.abs(kernels[2] - kernels[1]).max() < np.abs(kernels[1] - kernels[0]).max()
    assert _accuracy(backbone, more, few, range(len(few[0]))) > 0.9
    same, none = _run(few, tmp_path / "none", replace(KNOBS, more_epochs=0.0), after=folder / WEIGHTS_FILE)
    assert (none.history, np.abs(_kernel(same, "conv1") - kernels[1]).max()) == ((), 0)


def test_what_ships_reads_the_compared_models_maps(few: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute, one, computed, kernels = maps.Computed.all, replace(ON_MAPS, epochs=1), [], []

    def counted(*given: Any) -> Iterator[Any]:
        computed.append(given)
        return compute(*given)

    monkeypatch.setattr(maps.Computed, "all", counted)
    _run(few, tmp_path / "compared", one, maps=tmp_path / "maps")
    for own, shared in enumerate((tmp_path / "maps", None)):
        backbone, _ = _run(few, tmp_path / str(own), one, after=tmp_path / "compared" / WEIGHTS_FILE, maps=shared)
        assert len(computed) == 1 + own
        kernels.append(_kernel(backbone, "conv1"))
    np.testing.assert_array_equal(*kernels)


def test_a_time_limit_inside_the_first_epoch_keeps_what_was_learnt(short: Tuned, few: Data, tmp_path: Path) -> None:
    knobs = replace(SHORT, learning_rate=1e-12)
    with _ticking():
        _, result = _run(few, tmp_path, replace(knobs, seconds=7.0))
    assert result.out_of_time
    assert result.history == ()
    assert result.validation_accuracy == result.start_accuracy
    assert result.best_epoch == 0, "of equals the trained one"
    with _ticking():
        assert _run(few, tmp_path / "b", replace(SHORT, seconds=7.0))[1].history == ()
    again = _run(few, tmp_path / "b", SHORT)[1]
    np.testing.assert_allclose(_losses(again), _losses(short[1]), rtol=1e-3, err_msg="no step is learnt twice")


def test_a_limit_that_ends_a_training_early_lowers_its_rate_in_time(short: Tuned, few: Data, tmp_path: Path) -> None:
    with _ticking():
        _, result = _run(few, tmp_path, replace(SHORT, seconds=16.0))
    assert result.out_of_time
    assert len(result.history) == 1
    assert json.loads((tmp_path / STATE).read_text())["shortened"]
    _interrupted(few, tmp_path, SHORT)
    again = json.loads((tmp_path / STATE).read_text())
    assert not again["shortened"]
    assert again["history"][0]["loss"] == pytest.approx(_losses(short[1])[0], rel=1e-3), "another limit begins anew"
    with _ticking():
        _, alone = _run(few, tmp_path / "alone", replace(SHORT, seconds=16.0), limit=TrainingTime(alone_s=400.0))
    assert len(alone.history) == SHORT.epochs, "it takes the time of the one that ships"
    assert alone.out_of_time, "nothing follows it, and a later search without a limit begins it anew"
    assert not json.loads((tmp_path / "alone" / STATE).read_text())["shortened"], "its rate falls with its steps"


def test_a_limit_with_time_enough_gives_the_weights_of_no_limit(short: Tuned, few: Data, tmp_path: Path) -> None:
    backbone, result = _run(few, tmp_path, replace(SHORT, seconds=3600.0))
    assert not result.out_of_time
    np.testing.assert_array_equal(result.weights, short[1].weights)
    for own, other in zip(backbone.get_weights(), short[0].get_weights(), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.usefixtures("short")
def test_other_knobs_start_anew_and_faults_are_stage_errors(few: Data, short_folder: Path, tmp_path: Path) -> None:
    must_fail(StageError, "diverged in epoch 1", _run, few, short_folder, replace(SHORT, learning_rate=float("nan")))
    images = replace(_data(few), images=[*few[0][:-1], tmp_path / "gone.png"])
    must_fail(StageError, r"gone\.png", finetune, nets.backbone(), images, KNOBS, tmp_path / "run")


def test_on_kept_maps_it_leaves_lower_layers_and_ends_as_the_best(data: Data, tmp_path: Path) -> None:
    backbone, whole = _run(data, tmp_path, ON_MAPS)
    assert whole.validation_accuracy > whole.start_accuracy
    assert not whole.levels
    np.testing.assert_array_equal(_kernel(nets.backbone(), "conv0"), _kernel(backbone, "conv0"))
    assert (_kernel(nets.backbone(), "conv1") != _kernel(backbone, "conv1")).any()
    (tmp_path / "tuned.tflite").write_bytes(to_tflite(backbone, whole))
    unseen = _validation(data)
    found = predict(tmp_path / "tuned.tflite", [data[0][row] for row in unseen], nets.VIEW).argmax(axis=1)
    assert (found == np.array(data[1])[unseen]).mean() == pytest.approx(whole.validation_accuracy, abs=0.01)


@pytest.mark.parametrize("knobs", [ON_MAPS, replace(KNOBS, augmentation=replace(KNOBS.augmentation, mixup=0.2))])
def test_it_learns_each_of_several_labels_from_what_is_known(knobs: Finetuning, data: Data, tmp_path: Path) -> None:
    truth = np.stack([np.array(data[1]), 1 - np.array(data[1]), np.full(len(data[1]), -1)], axis=1)
    truth[::3, 1] = -1
    backbone, images = nets.backbone(), replace(_data(data), labels=truth.tolist(), head=None)
    result = finetune(backbone, images, knobs, tmp_path)
    assert result.validation_accuracy > max(result.start_accuracy, 0.9)
    (tmp_path / "tuned.tflite").write_bytes(to_tflite(backbone, result, "scores"))
    scores = predict(tmp_path / "tuned.tflite", [data[0][row] for row in _validation(data)], nets.VIEW)
    judged = label_precision.mean_precision(truth[_validation(data)].astype(np.int8), scores)
    assert judged == pytest.approx(result.validation_accuracy, abs=0.02)
    assert not np.isclose(scores.sum(axis=1), 1, atol=0.01).all()


def test_its_seconds_are_known_after_ten_steps(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second: one before each step, and one before and after the validation."""
    knobs = replace(KNOBS, epochs=4, batch=8)
    monkeypatch.setattr(_Session, "end_epoch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with _ticking(), pytest.raises(KeyboardInterrupt):
        _run(data, tmp_path, knobs)
    state = json.loads((tmp_path / STATE).read_text())
    steps = -(-(len(data[0]) - len(_validation(data))) // knobs.batch)
    assert state["history"] == []
    done, epochs, share = epochs_done(tmp_path, knobs) or (1, 0, 0.0)
    assert (done, epochs) == (0, 4)
    assert share == state["spent_s"] / (state["spent_s"] + state["rest_s"])
    assert state["rest_s"] == pytest.approx((epochs - 10 / steps) * (steps * 10 / 9 + 1)), "ten looks in nine steps"
    whole = replace(ON_MAPS, trained=2 * knobs.trained, epochs=2)
    _, epochs, of_whole = epochs_done(tmp_path, whole) or (1, 0, 0.0)
    assert (epochs, of_whole) == (4, share * whole.share_of_seconds(knobs.trained, 4)), "of more layers, fewer epochs"


@pytest.mark.parametrize("cached", [False, True])
def test_it_starts_from_all_levels_only_where_the_head_reads_them(cached: bool, data: Data, tmp_path: Path) -> None:
    backbone, spec = nets.halvings(False), InputSpec(nets.WIDE, nets.VIEW.mean, nets.VIEW.std)
    knobs, paths, labels = replace(ONE, cached=cached), data[0][:40], data[1][:40]
    whole = with_levels(backbone, level_layers(backbone))
    read = np.stack([np.asarray(whole(spec.read(path)[None], training=False))[0] for path in paths[:CHECKED]])
    last = backbone.outputs[0].shape[-1]
    for levels_tell in (False, True):
        features = np.random.default_rng(0).normal(size=(40, read.shape[1])).astype(np.float32)
        features[:, -1 if levels_tell else last - 1] = 4 * np.array(labels)
        features[:CHECKED] = read
        images = FinetuneData(features, paths, labels, spec, _validation((paths, labels)))
        start, _ = first_head(backbone, images, ~images.unseen, knobs)
        assert bool(start.levels) == levels_tell
        assert len(start.weights) == (read.shape[1] if levels_tell else last)
    result = finetune(backbone, images, knobs, tmp_path)
    assert result.levels
    assert len(result.weights) == read.shape[1]


@pytest.mark.parametrize("cached", [False, True])
def test_a_head_that_is_known_is_not_chosen_again(cached: bool, few: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    one, images, backbone = replace(ONE, cached=cached), replace(_data(few), head=None), nets.backbone()
    learnt = ~images.unseen
    chosen, strength = first_head(backbone, images, learnt, one)
    head = train_head(images.features[learnt], np.array(images.labels)[learnt].tolist(), 2, one.seed, last=8)
    monkeypatch.setattr("advisor.training._finetune.network.train_head", None)
    known, again = first_head(backbone, replace(images, head=head), learnt, one)
    assert again == strength
    np.testing.assert_array_equal(known.weights, chosen.weights)
