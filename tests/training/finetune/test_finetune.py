import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec
from advisor.measurement.accuracy import predict
from advisor.training.features import Augmentation
from advisor.training.finetune import to_tflite
from advisor.training.finetune.finetune import WEIGHTS, Finetuned, Finetuning, _Session, finetune
from advisor.training.finetune.network import CHECKED, FinetuneData, level_layers, with_levels
from advisor.training.head import ALL_LEVELS, LAST_LAYER, train_head
from advisor.training.loop import Timer
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


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return nets.stripes(tmp_path_factory.mktemp("stripes"), 140)


def _data(features: np.ndarray, data: Data) -> FinetuneData:
    return FinetuneData(features, *data, nets.VIEW)


@cache
def _at_start(paths: tuple[Path, ...]) -> np.ndarray:
    """Return the features of the images before any training."""
    return nets.features(nets.backbone(), list(paths))


@contextmanager
def _after_each_epoch(call: Callable[[int], None]) -> Iterator[None]:
    """Call with the number of epochs done after each of them, where a killed process would end."""
    end_epoch = _Session.end_epoch

    def end(session: _Session, losses: Sequence[Any]) -> None:
        end_epoch(session, losses)
        call(len(session.history))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Session, "end_epoch", end)
        yield


def _run(data: Data, folder: Path, hyperparameters: Finetuning = KNOBS) -> Tuned:
    backbone = nets.backbone()
    return backbone, finetune(backbone, _data(_at_start(tuple(data[0])), data), hyperparameters, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the checkpoints of ``tuned``."""
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tuned(data: Data, folder: Path) -> Tuned:
    return _run(data, folder)


@pytest.fixture(scope="module")
def resumed(data: Data, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, float]], Finetuned]:
    """A run that was ended after three epochs: its epochs by then, and its result after it was resumed."""
    folder = tmp_path_factory.mktemp("resumed")
    backbone = nets.backbone()
    features = _at_start(tuple(data[0]))
    with pytest.raises(KeyboardInterrupt), _after_each_epoch(_interrupt):
        finetune(backbone, _data(features, data), KNOBS, folder)
    begun = json.loads((folder / "state.json").read_text())["history"]
    return begun, _run(data, folder)[1]


def test_it_learns_what_the_head_alone_could_not(tuned: Tuned) -> None:
    _, result = tuned
    assert result.validation_accuracy > result.start_accuracy
    assert result.validation_accuracy > 0.9


def test_the_returned_trunk_and_head_are_those_of_the_best_epoch(tuned: Tuned, data: Data) -> None:
    backbone, result = tuned
    features = nets.features(backbone, data[0])
    unseen = np.flatnonzero(_data(features, data).unseen(KNOBS.seed))
    answers = (features[unseen] @ result.weights + result.bias).argmax(axis=1)
    assert (answers == np.array(data[1])[unseen]).mean() == pytest.approx(result.validation_accuracy, abs=1e-6)
    assert result.history[result.best_epoch]["validation_accuracy"] == result.validation_accuracy


def test_the_file_answers_as_trunk_and_head_do(tuned: Tuned, data: Data, tmp_path: Path) -> None:
    backbone, result = tuned
    (tmp_path / "tuned.tflite").write_bytes(to_tflite(backbone, result))
    found = predict(tmp_path / "tuned.tflite", data[0][:20], nets.VIEW)
    expected = softmax(nets.features(backbone, data[0][:20]) @ result.weights + result.bias, axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_batchnorm_keeps_its_statistics(tuned: Tuned) -> None:
    before, after = nets.backbone(), tuned[0]
    for layer in ("norm0", "norm1"):
        old, new = (net.get_layer(layer).get_weights() for net in (before, after))
        np.testing.assert_array_equal(old[2:], new[2:])
        assert (old[0] != new[0]).any()


def test_a_share_from_the_top_is_trained(data: Data, tmp_path: Path) -> None:
    backbone, result = _run(data, tmp_path, replace(KNOBS, trained=0.5))
    before = nets.backbone()
    assert result.best_epoch >= 0
    np.testing.assert_array_equal(
        before.get_layer("conv0").get_weights()[0], backbone.get_layer("conv0").get_weights()[0]
    )
    assert (before.get_layer("conv1").get_weights()[0] != backbone.get_layer("conv1").get_weights()[0]).any()


def test_an_interrupted_run_goes_on_where_it_was(resumed: tuple[list[dict[str, float]], Finetuned]) -> None:
    begun, result = resumed
    assert len(begun) == 3
    assert list(result.history[:3]) == begun
    assert len(result.history) == KNOBS.epochs


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(
    tuned: Tuned, resumed: tuple[list[dict[str, float]], Finetuned]
) -> None:
    losses = [[row["loss"] for row in result.history] for result in (resumed[1], tuned[1])]
    np.testing.assert_allclose(*losses, rtol=0.02)


def _interrupt(done: int) -> None:
    if done == 3:
        raise KeyboardInterrupt


def test_other_knobs_start_anew(data: Data, tmp_path: Path) -> None:
    _run(data, tmp_path, replace(KNOBS, epochs=1))
    _, second = _run(data, tmp_path, replace(KNOBS, epochs=2, learning_rate=0.001))
    assert len(second.history) == 2


def test_nothing_better_returns_the_start(data: Data, tmp_path: Path) -> None:
    backbone, result = _run(data, tmp_path, replace(KNOBS, epochs=2, learning_rate=1e-12))
    assert result.validation_accuracy == result.start_accuracy
    assert result.best_epoch == -1
    np.testing.assert_allclose(nets.features(backbone, data[0]), _at_start(tuple(data[0])), atol=1e-5)


def test_it_stops_when_it_no_longer_gains(data: Data, tmp_path: Path) -> None:
    _, result = _run(data, tmp_path, replace(KNOBS, epochs=8, patience=2, learning_rate=1e-12))
    assert len(result.history) == 4


def test_it_goes_on_while_it_gains_though_below_its_start(data: Data, tmp_path: Path) -> None:
    def spoil(done: int) -> None:
        """Let the start look better than anything that can come: a cosine gains most at its end."""
        if done == 1:
            state = json.loads((tmp_path / "state.json").read_text())
            (tmp_path / "state.json").write_text(json.dumps({**state, "best": 2.0}))
            raise KeyboardInterrupt

    backbone = nets.backbone()
    features = _at_start(tuple(data[0]))
    with pytest.raises(KeyboardInterrupt), _after_each_epoch(spoil):
        finetune(backbone, _data(features, data), replace(KNOBS, patience=3), tmp_path)
    _, result = _run(data, tmp_path, replace(KNOBS, patience=3))
    assert result.best_epoch == 0, "nothing after the first epoch surpasses the start"
    found = [row["validation_accuracy"] for row in result.history]
    assert len(found) == KNOBS.epochs or len(found) - 1 - found.index(max(found)) >= 3


def test_what_ships_goes_on_with_the_validation_part_too(
    tuned: Tuned, folder: Path, data: Data, tmp_path: Path
) -> None:
    first, _ = tuned
    backbone = nets.backbone()
    features = _at_start(tuple(data[0]))
    more = finetune(backbone, _data(features, data), KNOBS, tmp_path / "ships", after=folder / WEIGHTS)
    assert len(more.history) == KNOBS.going_on().epochs == 2
    kernels = [net.get_layer("conv1").get_weights()[0] for net in (nets.backbone(), first, backbone)]
    assert 0 < np.abs(kernels[2] - kernels[1]).max() < np.abs(kernels[1] - kernels[0]).max()
    logits = nets.features(backbone, data[0]) @ more.weights + more.bias
    assert (logits.argmax(axis=1) == data[1]).mean() > 0.9


def test_what_ships_reads_the_maps_of_the_compared_model(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from advisor.training.finetune import maps

    cached, computed = replace(KNOBS, trained=0.5, cached=True, copies=1, epochs=2), []
    compute = maps._maps

    def counted(*given: Any) -> Iterator[Any]:
        computed.append(given)
        return compute(*given)

    monkeypatch.setattr(maps, "_maps", counted)
    features = _at_start(tuple(data[0]))
    kernels = []
    for shared in (tmp_path / "maps", None):
        place, computed[:] = tmp_path / str(shared is None), []
        finetune(nets.backbone(), _data(features, data), cached, place / "compared", maps=shared)
        backbone = nets.backbone()
        first = place / "compared" / WEIGHTS
        finetune(backbone, _data(features, data), cached, place / "ships", after=first, maps=shared)
        assert len(computed) == (1 if shared else 2)
        kernels.append(backbone.get_layer("conv1").get_weights()[0])
    np.testing.assert_array_equal(*kernels)


def test_the_time_limit_ends_it_before_an_epoch_too_many(data: Data, tmp_path: Path) -> None:
    _, result = _run(data, tmp_path, replace(KNOBS, epochs=30, patience=30, seconds=1e-6))
    assert len(result.history) <= 1


def test_a_time_limit_inside_the_first_epoch_keeps_what_its_steps_learnt(
    tuned: Tuned, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 5
    late = iter([False] * steps)
    monkeypatch.setattr(Timer, "is_over", lambda _limit, _more_s: next(late, True))
    _, result = _run(data, tmp_path / "limited", replace(KNOBS, seconds=1.0))
    assert result.out_of_time
    assert result.history == ()
    assert (result.best_epoch == 0) == (result.validation_accuracy >= result.start_accuracy), (
        "of equals the trained one"
    )
    monkeypatch.undo()
    _, resumed = _run(data, tmp_path / "limited", KNOBS)
    losses, expected = ([row["loss"] for row in result.history] for result in (resumed, tuned[1]))
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


def test_a_limit_that_ends_a_training_early_lowers_its_rate_in_time(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = _run(data, tmp_path, replace(KNOBS, epochs=1000, patience=1000, seconds=3.0))
    assert result.out_of_time
    assert json.loads((tmp_path / "state.json").read_text())["shortened"]
    _, again = _run(data, tmp_path, KNOBS)
    assert not again.out_of_time, "another limit begins anew"
    assert len(again.history) <= KNOBS.epochs


def test_a_limit_with_time_enough_gives_the_weights_of_no_limit(tuned: Tuned, data: Data, tmp_path: Path) -> None:
    backbone, result = _run(data, tmp_path, replace(KNOBS, seconds=3600.0))
    assert not result.out_of_time
    np.testing.assert_array_equal(result.weights, tuned[1].weights)
    for own, other in zip(backbone.get_weights(), tuned[0].get_weights(), strict=True):
        np.testing.assert_array_equal(own, other)


def test_divergence_is_a_stage_error(data: Data, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="diverged"):
        _run(data, tmp_path, replace(KNOBS, learning_rate=float("nan")))


def test_a_vanished_image_is_a_stage_error(data: Data, tmp_path: Path) -> None:
    paths = [*data[0][:-1], tmp_path / "gone.png"]
    backbone = nets.backbone()
    features = _at_start(tuple(data[0]))
    with pytest.raises(StageError, match=r"gone\.png"):
        finetune(backbone, _data(features, (paths, data[1])), KNOBS, tmp_path / "run")


def test_on_kept_maps_it_learns_resumes_and_leaves_the_lower_layers(data: Data, tmp_path: Path) -> None:
    cached = replace(KNOBS, cached=True, copies=1, trained=0.5, learning_rate=0.03)
    backbone, whole = _run(data, tmp_path / "whole", cached)
    assert whole.validation_accuracy > whole.start_accuracy
    assert not whole.levels
    kernels = [
        [net.get_layer(f"conv{place}").get_weights()[0] for place in (0, 1)] for net in (nets.backbone(), backbone)
    ]
    np.testing.assert_array_equal(kernels[0][0], kernels[1][0])
    assert (kernels[0][1] != kernels[1][1]).any()
    with pytest.raises(KeyboardInterrupt), _after_each_epoch(_interrupt):
        _run(data, tmp_path / "resumed", cached)
    _, resumed = _run(data, tmp_path / "resumed", cached)
    losses = [[row["loss"] for row in result.history] for result in (resumed, whole)]
    np.testing.assert_allclose(*losses, rtol=0.02)


def test_on_kept_maps_the_file_answers_as_the_best_epoch_did(data: Data, tmp_path: Path) -> None:
    cached = replace(KNOBS, cached=True, trained=0.5, learning_rate=0.03)
    backbone, result = _run(data, tmp_path, cached)
    (tmp_path / "tuned.tflite").write_bytes(to_tflite(backbone, result))
    unseen = np.flatnonzero(_data(nets.features(backbone, data[0]), data).unseen(cached.seed))
    found = predict(tmp_path / "tuned.tflite", [data[0][row] for row in unseen], nets.VIEW).argmax(axis=1)
    assert (found == np.array(data[1])[unseen]).mean() == pytest.approx(result.validation_accuracy, abs=0.01)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("levels_tell", [False, True])
def test_it_starts_from_all_levels_only_where_the_chosen_head_reads_them(
    cached: bool, levels_tell: bool, tmp_path: Path
) -> None:
    backbone, spec = nets.halvings(False), InputSpec(nets.WIDE, nets.VIEW.mean, nets.VIEW.std)
    paths, labels = nets.stripes(tmp_path / "images", 60)
    whole = with_levels(backbone, level_layers(backbone))
    read = np.stack([np.asarray(whole(spec.read(path)[None], training=False))[0] for path in paths[:CHECKED]])
    last = backbone.outputs[0].shape[-1]
    features = np.random.default_rng(0).normal(size=(60, read.shape[1])).astype(np.float32)
    features[:, -1 if levels_tell else last - 1] = 4 * np.array(labels)
    features[:CHECKED] = read
    chosen = train_head(features[CHECKED:], labels[CHECKED:], 2, 0, last=last).facts.kind
    assert chosen == (ALL_LEVELS if levels_tell else LAST_LAYER)
    one = replace(KNOBS, cached=cached, trained=0.5, epochs=1)
    result = finetune(backbone, FinetuneData(features, paths, labels, spec), one, tmp_path / "run")
    assert result.levels == levels_tell
    assert len(result.weights) == (read.shape[1] if levels_tell else last)


@pytest.mark.parametrize("cached", [False, True])
def test_a_head_that_is_known_is_not_chosen_again(
    cached: bool, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(KNOBS, cached=cached, trained=0.5, epochs=1)
    images = _data(_at_start(tuple(data[0])), data)
    chosen = finetune(nets.backbone(), images, one, tmp_path / "chosen")
    learnt = ~images.unseen(one.seed)
    head = train_head(images.features[learnt], np.array(data[1])[learnt].tolist(), 2, one.seed, last=8)
    monkeypatch.setattr("advisor.training.finetune.network.train_head", None)
    known = finetune(nets.backbone(), replace(images, head=head), one, tmp_path / "known")
    np.testing.assert_array_equal(known.weights, chosen.weights)
