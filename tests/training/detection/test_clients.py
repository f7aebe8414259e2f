"""A trained detector gives MediaPipe's client the boxes that LiteRT finds, on real photographs."""

from __future__ import annotations

from pathlib import Path

import pytest
from ai_edge_litert.interpreter import Interpreter

from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.images import load
from advisor.tflite.metadata import Metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.postprocess import Suppression, append_postprocess
from advisor.training.detection.boxes import box_detector_head
from advisor.training.detection.changes import objects_of
from advisor.training.detection.fit import Hyperparameters
from advisor.training.detection.maps import Boxed, keep_maps
from advisor.training.detection.network import joined, with_maps
from advisor.training.finetune.network import flatbuffer
from tests.training.detection.squares import VIEW, fitted
from tests.training.nets import WIDE, halvings

PHOTOS = 20


@pytest.mark.slow
@pytest.mark.integration
def test_mediapipe_finds_the_same_boxes_within_a_pixel_on_twenty_photographs(bccd: Path, tmp_path: Path) -> None:
    mediapipe = pytest.importorskip("mediapipe")
    tasks, read = mediapipe.tasks, survey_boxes(bccd)
    paths = [image.path for image in read.images.dataset.images[:PHOTOS]]
    objects = [
        objects_of(
            [(read.classes.index(box.label), box.top / h, box.left / w, box.bottom / h, box.right / w) for box in boxes]
        )
        for boxes, (w, h) in zip(read.boxes[:PHOTOS], read.sizes[:PHOTOS], strict=True)
    ]
    maps = with_maps(halvings(pad=True))
    learnt = fitted(
        box_detector_head, keep_maps(maps, Boxed(paths, objects), VIEW, tmp_path, 0), 3, Hyperparameters(epochs=10)
    )
    assert learnt.anchors is not None
    data = append_postprocess(flatbuffer(joined(maps, learnt.model)), learnt.anchors.boxes, Suppression(10, score=0.0))
    data = write_metadata(data, Metadata("cells", read.classes, VIEW.mean, VIEW.std))
    run, seen = Interpreter(model_content=data).get_signature_runner(), 0
    options = tasks.vision.ObjectDetectorOptions(base_options=tasks.BaseOptions(model_asset_buffer=data))
    with tasks.vision.ObjectDetector.create_from_options(options) as client:
        for path in paths:
            pixels = load(path, WIDE)
            found = client.detect(mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=pixels)).detections
            own = run(image=VIEW.normalise(pixels)[None])
            assert len(found) == int(own["count"][0])
            left = list(zip((WIDE * own["boxes"][0]).tolist(), own["classes"][0].astype(int), strict=True))
            for one in found:  # boxes with nearly equal scores may change places
                box, name = one.bounding_box, one.categories[0].category_name
                same = [
                    place
                    for place, ((top, start, bottom, end), label) in enumerate(left)
                    if (box.origin_y, box.origin_x) == pytest.approx((max(top, 0), max(start, 0)), abs=1)
                    and (box.height, box.width) == pytest.approx((bottom - top, end - start), abs=1)
                    and name == read.classes[label]
                ]  # its corner is moved into the image, its sides are not
                assert same
                del left[same[0]]
            seen += len(found)
    assert seen > PHOTOS
