"""List the forms of tables of boxes: the columns that each must have, and the accepted titles.

``tables.py`` takes the first form of :data:`FORMS` whose columns a table has, so their order
matters. A title that is taken away makes tables of users unreadable.
"""

from __future__ import annotations

from advisor.datasets._column_names import FOREIGN_IMAGES, FOREIGN_LABELS
from advisor.datasets._manifest_columns import columns_of_table
from advisor.datasets._untitled_columns import CORNERS, UNTITLED_EDGES

EDGES = ("xmin", "ymin", "xmax", "ymax")
_LABEL_NAMES = (
    "label class cls class_name label_name category_name category name labelname classid class_id"
    " annotation_tag"
)
_IMAGE_NAMES = "path file filename file_name image image_name image_path image_id imageid img"
_SIZE_HINT = "optionally, split, group, width and height of the image"
HINT = (
    f"columns: path,label,xmin,ymin,xmax,ymax and, {_SIZE_HINT}; one row for each box; a row"
    " without label and edges is an image without boxes"
)
_IMAGE_SIZE = {
    "width": ("width", "image_width", "img_width"),
    "height": ("height", "image_height", "img_height"),
}
_STATED_SIZE = {"width": ("image_width", "img_width"), "height": ("image_height", "img_height")}
_LEFT = "xmin x_min left x1 roi.x1 bbox_x1 x_left xtl bbox_xmin upper_left_corner_x"
_TOP = "ymin y_min top y1 roi.y1 bbox_y1 y_top ytl bbox_ymin upper_left_corner_y"
_SIDES = {
    "xmax": "w width bbox_w bbox_width box_width box_w",
    "ymax": "h height bbox_h bbox_height box_height box_h",
}
_IMAGES = (*_IMAGE_NAMES.split(), *FOREIGN_IMAGES)
_LABELS = (*_LABEL_NAMES.split(), *FOREIGN_LABELS)

BOXED = columns_of_table(
    _IMAGES,
    _LABELS,
    HINT,
    {
        "xmin": _LEFT,
        "ymin": _TOP,
        "xmax": "xmax x_max right x2 roi.x2 bbox_x2 x_right xbr bbox_xmax lower_right_corner_x",
        "ymax": "ymax y_max bottom y2 roi.y2 bbox_y2 y_bottom ybr bbox_ymax lower_right_corner_y",
    },
    **_IMAGE_SIZE,
)
CORNER_AND_SIDES = columns_of_table(
    _IMAGES, _LABELS, HINT, {"xmin": _LEFT, "ymin": _TOP, **_SIDES}, **_STATED_SIZE
)
CENTRE_AND_SIDES = columns_of_table(
    _IMAGES,
    _LABELS,
    HINT,
    {
        "xmin": "x_center xcenter center_x cx xc x_centre",
        "ymin": "y_center ycenter center_y cy yc y_centre",
        **_SIDES,
    },
    **_STATED_SIZE,
)
POINT_AND_SIDES = columns_of_table(
    _IMAGES,
    _LABELS,
    HINT,
    {"xmin": "x bbox_x box_x", "ymin": "y bbox_y box_y", **_SIDES},
    **_STATED_SIZE,
)
UNTITLED = columns_of_table(_IMAGES, _LABELS, HINT, dict(zip(EDGES, UNTITLED_EDGES, strict=True)))
LISTED = columns_of_table(
    _IMAGES, _LABELS, HINT, {"xmin": "bbox box bounding_box bndbox"}, **_IMAGE_SIZE
)
FOUR_CORNERS = columns_of_table(_IMAGES, _LABELS, HINT, {name: name for name in CORNERS})
FORMS = (
    FOUR_CORNERS,
    BOXED,
    CORNER_AND_SIDES,
    CENTRE_AND_SIDES,
    POINT_AND_SIDES,
    UNTITLED,
    LISTED,
)
"""The forms of tables; the first whose columns are there counts."""
