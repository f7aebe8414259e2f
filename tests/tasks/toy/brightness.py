"""A task of another package: tell the mean brightness of an image (0-1). Its answers count within a tenth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.tasks import Task

if TYPE_CHECKING:
    from advisor.engine import Images, Judge, Question, Stage


class Brightness(Task):
    def read(self, question: Question, say: Any) -> Images:
        from advisor.datasets import Division, Survey
        from advisor.engine import Images

        read = Survey.read(question.require_data())
        alike = tuple(replace(image, label=0) for image in read.dataset.images)
        read = replace(read, dataset=replace(read.dataset, classes=(self.name,), images=alike))
        division = Division.of_survey(read, question.seed)
        return Images.of_division(read.dataset, division, division.list_notes(read.dataset), say)

    def model(self, card: Any, training: str, purpose: Any, workload: Any) -> Stage[Any]:
        from advisor.engine import FloatModel, Purpose, Role, Scope, Stage, StageName, cut_stage, identity, input_spec
        from advisor.tflite import FEATURES

        role = Role.TRAIN if purpose is Purpose.COMPARE else Role.LEARNT
        backbone = cut_stage(card, FEATURES)

        def inputs(materials: Any, results: Any) -> Any:
            images = materials.part(role).fingerprint
            return {**identity(materials, card), "backbone": results[backbone].sha256, "pictures": images}

        def job(materials: Any, results: Any, folders: Any) -> Any:
            paths = materials.part(role).paths
            return partial(train, results[backbone].path, paths, input_spec(card), folders.model)

        return Stage(
            name=StageName.HEAD,
            scope=Scope(card.name, training, purpose=purpose),
            version="1",
            doing="fitting the brightness of",
            after=(backbone,),
            inputs=inputs,
            job=job,
            read=FloatModel.within,
            reads=lambda materials: materials.part(role),
        )

    def score(self, scope: Any, spec: Any, source: Any, role: Any, cost_s: float) -> Stage[Path]:
        from advisor.engine import StageName, over_images

        return over_images(StageName.SCORE, answer, "answers.npy", scope, spec, source, role, cost_s)

    def judge(self, question: Question) -> Judge:
        return Within()


class Within:
    def verdict(self, scored: Any, images: Images, file: str) -> Any:
        from advisor.core import ImageAnswers, Interval
        from advisor.engine import AccuracyVerdict, Role, share_of

        own, floats = (right(path, images, Role.VALIDATION) for path in scored[:2])
        drop = Interval.paired_difference(floats, own).as_drop(len(own))
        reached = share_of(own, "validation part, within a tenth")
        return AccuracyVerdict(reached, drop, ImageAnswers({}, file=file)), {file: [float(each) for each in own]}

    def held_out(self, evaluation: Any, own: Path, images: Images, file: str = "") -> Any:
        from advisor.engine import Role, share_of

        reached = share_of(right(own, images, Role.HOLDOUT), "hold-out, within a tenth")
        return replace(evaluation, holdout_accuracy=reached), {}

    def captured(self, answers: Path, images: Images, role: Any) -> Any:
        raise NotImplementedError("no brightness is told under capture conditions")


def train(backbone: Path, images: Any, spec: Any, path: Path) -> None:
    """Fit one output to the features of a card's backbone by least squares, and write both as one float file."""
    from ai_edge_litert import schema_py_generated as schema

    from advisor.measurement import predict
    from advisor.tflite import unpack

    wide = np.pad(predict(backbone, images, spec), ((0, 0), (0, 1)), constant_values=1)
    fitted = np.linalg.solve(wide.T @ wide + 0.1 * np.eye(wide.shape[1]), wide.T @ brightness(images)).astype("<f4")
    model = unpack(backbone.read_bytes())
    dtype = schema.TensorType.FLOAT32
    graph, _ = model.find_single_graph()
    weights = model.add_tensor(graph, "weights", (1, len(fitted) - 1), dtype, fitted[:-1].tobytes())
    inputs = [int(graph.outputs[0]), weights, model.add_tensor(graph, "bias", (1,), dtype, fitted[-1:].tobytes())]
    code, options = schema.BuiltinOperator.FULLY_CONNECTED, schema.FullyConnectedOptionsT()
    output = model.append_operator(graph, code, inputs, "brightness", (1, 1), options)
    model.replace_signature(graph, "image", {"brightness": output})
    path.write_bytes(model.pack())


def answer(model: Path, images: Any, spec: Any, path: Path, _classes: Any) -> None:
    from advisor.measurement import predict

    np.save(path, predict(model, images, spec))


def brightness(images: Any) -> np.ndarray:
    from advisor.datasets import load

    return np.array([load(path, 32).mean() / 255 for path in images])


def right(file: Path, images: Images, role: Any) -> list[bool]:
    apart = np.load(file).reshape(-1) - brightness(images.part(role).paths)
    return [bool(each) for each in abs(apart) <= 0.1]


BRIGHTNESS = Brightness(
    "brightness", "Brightness meter", "share within a tenth", "Share", "share within a tenth", ("head",)
)
