"""Read, check and split the images of users, with their classes or boxes.

Read ``_dataset.py`` first (images as values), then ``_layouts.py`` (which files there are), ``_survey.py`` (read them
all), ``_checks/`` (what is wrong with them) and ``_split.py``. ``_images.py`` decodes single images, ``_boxes/`` reads
boxes, ``_capture.py`` changes images as a hand-held phone does.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.datasets._boxes import base_of, coco_files, formats_of, images_of, lists_of
    from advisor.datasets._boxes.reading import BoxSurvey, Frame, survey_boxes
    from advisor.datasets._boxes.values import ONE_CLASS, Box, folder_in, part_folders, part_of, text_of
    from advisor.datasets._capture import STAYING, TESTS, VERSION, Test, captures, random_capture, seed_of
    from advisor.datasets._category_files import key_of, require_beside
    from advisor.datasets._checks import check, kept_together, repeated, require_usable, unreadable
    from advisor.datasets._checks.boxes import SMALL_SIDE, ObjectSizes, check_boxes, object_sizes, write_boxes
    from advisor.datasets._checks.findings import (
        Finding,
        Kind,
        counted,
        more_columns,
        row_of,
        writable,
        write_manifest,
        write_rows,
    )
    from advisor.datasets._checks.image_measure import Measure
    from advisor.datasets._checks.image_quality import MEASURES, OF_ANY_PLACE, MeasureDistribution, conditions, sizes
    from advisor.datasets._dataset import Dataset, Entry, LabelledImage, Listing, Rejected, class_order, members_of
    from advisor.datasets._demo import DEMO_NOTE, draw_demo
    from advisor.datasets._division import Division, Overview, divide, divide_boxes, stratified
    from advisor.datasets._duplicates import Pair, cropped_copies, groups, near_duplicates
    from advisor.datasets._grouping import silhouettes
    from advisor.datasets._image_groups import Grouping
    from advisor.datasets._image_places import find_by_name
    from advisor.datasets._images import (
        READ_ERRORS,
        InputSpec,
        decoded,
        is_candidate,
        load,
        open_image,
        orientation,
        quiet,
        read_bytes,
        reason,
        require_unchanged,
        sha256_of,
    )
    from advisor.datasets._layouts import list_files, missing_hint
    from advisor.datasets._manifest_columns import SPLIT, ManifestColumns
    from advisor.datasets._manifests import SUFFIXES, entry_of, read_rows
    from advisor.datasets._reading import ReaderFailure, read_each
    from advisor.datasets._scan import images_in
    from advisor.datasets._sources import address_of
    from advisor.datasets._split import (
        HOLDOUT,
        HOLDOUT_SHARE,
        PARTS,
        TRAIN,
        UNGROUPED,
        VALIDATION,
        VALIDATION_SHARE,
        Split,
        copies_sentence,
        group_numbers,
        halved,
    )
    from advisor.datasets._survey import Progress, Survey, survey
    from advisor.datasets._table_rows import columns_of
    from advisor.datasets._thumbnails import read_thumbnail
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "DEMO_NOTE",
    "HOLDOUT",
    "HOLDOUT_SHARE",
    "MEASURES",
    "OF_ANY_PLACE",
    "ONE_CLASS",
    "PARTS",
    "READ_ERRORS",
    "SMALL_SIDE",
    "SPLIT",
    "STAYING",
    "SUFFIXES",
    "TESTS",
    "TRAIN",
    "UNGROUPED",
    "VALIDATION",
    "VALIDATION_SHARE",
    "VERSION",
    "Box",
    "BoxSurvey",
    "Dataset",
    "Division",
    "Entry",
    "Finding",
    "Frame",
    "Grouping",
    "InputSpec",
    "Kind",
    "LabelledImage",
    "Listing",
    "ManifestColumns",
    "Measure",
    "MeasureDistribution",
    "ObjectSizes",
    "Overview",
    "Pair",
    "Progress",
    "ReaderFailure",
    "Rejected",
    "Split",
    "Survey",
    "Test",
    "address_of",
    "base_of",
    "captures",
    "check",
    "check_boxes",
    "class_order",
    "coco_files",
    "columns_of",
    "conditions",
    "copies_sentence",
    "counted",
    "cropped_copies",
    "decoded",
    "divide",
    "divide_boxes",
    "draw_demo",
    "entry_of",
    "find_by_name",
    "folder_in",
    "formats_of",
    "group_numbers",
    "groups",
    "halved",
    "images_in",
    "images_of",
    "is_candidate",
    "kept_together",
    "key_of",
    "list_files",
    "lists_of",
    "load",
    "members_of",
    "missing_hint",
    "more_columns",
    "near_duplicates",
    "object_sizes",
    "open_image",
    "orientation",
    "part_folders",
    "part_of",
    "quiet",
    "random_capture",
    "read_bytes",
    "read_each",
    "read_rows",
    "read_thumbnail",
    "reason",
    "repeated",
    "require_beside",
    "require_unchanged",
    "require_usable",
    "row_of",
    "seed_of",
    "sha256_of",
    "silhouettes",
    "sizes",
    "stratified",
    "survey",
    "survey_boxes",
    "text_of",
    "unreadable",
    "writable",
    "write_boxes",
    "write_manifest",
    "write_rows",
]
