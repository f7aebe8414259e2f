"""Read, check and split the images of users, with their classes, boxes, masks or labels.

Read ``_dataset.py`` first (images as values), then ``_layouts.py`` (which files there are),
``_survey.py`` (read them all), ``_checks/`` (what is wrong with them) and ``_division.py`` (the
split). ``README.md`` lists all modules in this order.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.datasets._boxes import formats_of
    from advisor.datasets._boxes.entries import ONE_CLASS, Box
    from advisor.datasets._boxes.reading import BoxSurvey
    from advisor.datasets._boxes.set_folders import folder_in
    from advisor.datasets._calibration import (
        PHOTOGRAPHS_VERSION,
        CalibrationImages,
        choose_images,
    )
    from advisor.datasets._capture import (
        CAPTURE_VERSION,
        STAYING,
        TESTS,
        CaptureTest,
        draw_captures,
        random_capture,
        seed_of,
    )
    from advisor.datasets._checks import check_images, check_survey, require_usable
    from advisor.datasets._checks.boxes import (
        ObjectSizes,
        check_boxes,
        write_boxes,
    )
    from advisor.datasets._checks.findings import (
        Finding,
        Kind,
        phrase_count,
        require_writable,
        write_manifest,
        write_rows,
    )
    from advisor.datasets._checks.image_quality import (
        MeasureDistribution,
    )
    from advisor.datasets._cropped_copies import find_cropped_copies
    from advisor.datasets._dataset import (
        Dataset,
        Entry,
        LabelledImage,
        Listing,
        class_order,
    )
    from advisor.datasets._demo import DEMO_NOTE, draw_demo
    from advisor.datasets._division import (
        Division,
        Overview,
        number_linked_groups,
    )
    from advisor.datasets._duplicates import Pair
    from advisor.datasets._grouping import measure_silhouettes
    from advisor.datasets._image_files import open_image, require_unchanged, sha256_of
    from advisor.datasets._image_groups import Grouping
    from advisor.datasets._image_sizes import measure_photograph, read_upright_size
    from advisor.datasets._images import InputSpec, decode_images, load, try_images
    from advisor.datasets._label_sets.stratification import deal_out
    from advisor.datasets._label_sets.survey import LabelSetSurvey
    from advisor.datasets._label_sets.tables import list_label_sets
    from advisor.datasets._layouts import list_files, missing_hint
    from advisor.datasets._masks.listing import BACKGROUND
    from advisor.datasets._masks.mask import IGNORED_LABEL, Mask
    from advisor.datasets._masks.survey import MaskSurvey
    from advisor.datasets._photographs import photograph_crops
    from advisor.datasets._scan import images_in
    from advisor.datasets._sources import address_of
    from advisor.datasets._split import (
        Split,
        copies_sentence,
        expect_parts,
        split_halves,
    )
    from advisor.datasets._split_part import SplitPart
    from advisor.datasets._survey import Progress, Survey
    from advisor.datasets._thumbnails import read_thumbnail
    from advisor.datasets._tiles import Tiling
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "BACKGROUND",
    "CAPTURE_VERSION",
    "DEMO_NOTE",
    "IGNORED_LABEL",
    "ONE_CLASS",
    "PHOTOGRAPHS_VERSION",
    "STAYING",
    "TESTS",
    "Box",
    "BoxSurvey",
    "CalibrationImages",
    "CaptureTest",
    "Dataset",
    "Division",
    "Entry",
    "Finding",
    "Grouping",
    "InputSpec",
    "Kind",
    "LabelSetSurvey",
    "LabelledImage",
    "Listing",
    "Mask",
    "MaskSurvey",
    "MeasureDistribution",
    "ObjectSizes",
    "Overview",
    "Pair",
    "Progress",
    "Split",
    "SplitPart",
    "Survey",
    "Tiling",
    "address_of",
    "check_boxes",
    "check_images",
    "check_survey",
    "choose_images",
    "class_order",
    "copies_sentence",
    "deal_out",
    "decode_images",
    "draw_captures",
    "draw_demo",
    "expect_parts",
    "find_cropped_copies",
    "folder_in",
    "formats_of",
    "images_in",
    "list_files",
    "list_label_sets",
    "load",
    "measure_photograph",
    "measure_silhouettes",
    "missing_hint",
    "number_linked_groups",
    "open_image",
    "photograph_crops",
    "phrase_count",
    "random_capture",
    "read_thumbnail",
    "read_upright_size",
    "require_unchanged",
    "require_usable",
    "require_writable",
    "seed_of",
    "sha256_of",
    "split_halves",
    "try_images",
    "write_boxes",
    "write_manifest",
    "write_rows",
]
