"""A trained detector gives MediaPipe's client the boxes that LiteRT finds, on real photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.datasets.boxes.reading import survey_boxes
from advisor.measurement.detection import Detector
from advisor.tflite.metadata import Metadata, write_metadata
from advisor.tflite.postprocess import Suppression, append_postprocess
from advisor.training.detection.changes import objects_of
from advisor.training.detection.fit import Fitting, fit_head
from advisor.training.detection.maps import Boxed, keep_maps
from advisor.training.detection.network import detector, with_maps
from advisor.training.finetune.network import flatbuffer
from tests.training.detection.test_fit import VIEW
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
    head, anchors = fit_head(keep_maps(maps, Boxed(paths, objects), VIEW, tmp_path, 0), 3, Fitting(epochs=10))
    data = append_postprocess(flatbuffer(detector(maps, head)), anchors.boxes, Suppression(10, score=0.0))
    data = write_metadata(data, Metadata("cells", read.classes, VIEW.mean, VIEW.std))
    file = tmp_path / "cells.tflite"
    file.write_bytes(data)
    run, seen = Detector(file, VIEW), 0
    options = tasks.vision.ObjectDetectorOptions(base_options=tasks.BaseOptions(model_asset_buffer=data))
    with tasks.vision.ObjectDetector.create_from_options(options) as client:
        for path in paths:
            with Image.open(path) as photo:
                small = np.asarray(photo.convert("RGB").resize((WIDE, WIDE), Image.Resampling.BILINEAR))
            found = client.detect(mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=small)).detections
            own = run(path)
            assert len(found) == len(own.labels)
            for one, box, label in zip(found, own.boxes, own.labels, strict=True):
                edges = one.bounding_box
                top, left, bottom, right = WIDE * box
                there = edges.origin_y, edges.origin_x, edges.origin_y + edges.height, edges.origin_x + edges.width
                assert there == pytest.approx((top, left, bottom, right), abs=2)  # MediaPipe cuts off fractions twice
                assert one.categories[0].category_name == read.classes[label]
            seen += len(found)
    assert seen > PHOTOS
