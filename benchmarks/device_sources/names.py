"""Names of models: each table has its own, a model has one here."""

import re

AI_HUB_0_46 = {
    "beit": "beit_base_224",
    "convnext_base": "convnext_base_224",
    "convnext_tiny": "convnext_tiny_224",
    "densenet121": "densenet_121_224",
    "dla102x": "dla102x_224",
    "efficientformer": "efficientformer_l1_224",
    "efficientnet_b0": "efficientnet_b0_224",
    "efficientnet_b4": "efficientnet_b4_224",
    "efficientnet_v2_s": "efficientnet_v2_s_224",
    "efficientvit_b2_cls": "efficientvit_b2_224",
    "efficientvit_l2_cls": "efficientvit_l2_224",
    "googlenet": "inception_v1_224",
    "gpunet": "gpunet_224",
    "inception_v3": "inception_v3_224",
    "internimage": "internimage_t_224",
    "levit": "levit_128s_224",
    "mnasnet05": "mnasnet_0.5_224",
    "mobile_vit": "mobilevit_s_224",
    "mobilenet_v2": "mobilenet_v2_1.0_224",
    "mobilenet_v3_large": "mobilenet_v3_large_1.0_224",
    "mobilenet_v3_small": "mobilenet_v3_small_1.0_224",
    "nasnet": "nasnet_large_224",
    "regnet": "regnet_x_3.2gf_224",
    "regnet_y_800mf": "regnet_y_800mf_224",
    "resnet101": "resnet_101_224",
    "resnet18": "resnet_18_224",
    "resnet50": "resnet_50_224",
    "resnext101": "resnext_101_32x8d_224",
    "resnext50": "resnext_50_32x4d_224",
    "sequencer2d": "sequencer2d_s_224",
    "shufflenet_v2": "shufflenet_v2_0.5_224",
    "squeezenet1_1": "squeezenet_1.1_224",
    "vit": "vit_b16_224",
    "wideresnet50": "wide_resnet_50_224",
}
"""Release 0.46 ran every network at 224 pixels, also those that are named after a larger input."""

UNSTATED_INPUT_0_65 = {
    "convnext_v2_base": "convnext_v2_base",
    "efficientnet_lite4": "efficientnet_lite4",
    "efficientvit_l2_cls": "efficientvit_l2",
    "inception_v4": "inception_v4",
    "mobilenet_v4": "mobilenet_v4",
    "repvit": "repvit",
    "swinv2_base": "swin_v2_base",
}
"""Networks of release 0.65 whose input side is not known: the table states none.

EfficientViT-L2 took half as long at 224 pixels in release 0.46, with the same operators.
"""

AI_HUB_0_65 = {
    **AI_HUB_0_46,
    **UNSTATED_INPUT_0_65,
    "efficientnet_b4": "efficientnet_b4_380",
    "efficientnet_v2_s": "efficientnet_v2_s_384",
    "inception_v3": "inception_v3_299",
    "nasnet": "nasnet_large_331",
    "swin_base": "swin_base_224",
    "swin_small": "swin_small_224",
    "swin_tiny": "swin_tiny_224",
}
"""Release 0.65 runs them at their own size."""

NCNN = {
    "FastestDet": "fastestdet_352",
    "alexnet": "alexnet_227",
    "blazeface": "blazeface_128",
    "efficientnet_b0": "efficientnet_b0_224",
    "efficientnetv2_b0": "efficientnet_v2_b0_224",
    "googlenet": "inception_v1_224",
    "mnasnet": "mnasnet_1.0_224",
    "mobilenet": "mobilenet_v1_1.0_224",
    "mobilenet_ssd": "ssd_mobilenet_v1_300",
    "mobilenet-ssd": "ssd_mobilenet_v1_300",
    "mobilenet_v2": "mobilenet_v2_1.0_224",
    "mobilenet_v3": "mobilenet_v3_large_1.0_224",
    "mobilenet_yolo": "yolo_mobilenet_v1_416",
    "mobilenet-yolo": "yolo_mobilenet_v1_416",
    "mobilenetv2_yolov3": "yolov3_mobilenet_v2_352",
    "mobilenet_yolov3": "yolov3_mobilenet_v1_416",
    "nanodet_m": "nanodet_m_320",
    "proxylessnasnet": "proxylessnas_1.0_224",
    "regnety_400m": "regnet_y_400mf_224",
    "resnet18": "resnet_18_224",
    "resnet50": "resnet_50_224",
    "shufflenet": "shufflenet_v1_1.0_224",
    "shufflenet_v2": "shufflenet_v2_1.0_224",
    "squeezenet": "squeezenet_1.1_227",
    "squeezenet-int8": "squeezenet_1.1_227",
    "squeezenet_ssd": "ssd_squeezenet_300",
    "squeezenet-ssd": "ssd_squeezenet_300",
    "vgg16": "vgg16_224",
    "vision_transformer": "vit_384",
    "yolo-fastest-1.1": "yolo_fastest_1.1_320",
    "yolo-fastestv2": "yolo_fastest_v2_352",
    "yolov4-tiny": "yolov4_tiny_416",
}

_OTHERS = {
    "DenseNet": "densenet_121_224",
    "Inception_ResNet_V2": "inception_resnet_v2_299",
    "Inception_V1": "inception_v1_224",
    "Inception_V2": "inception_v2_224",
    "Inception_V3": "inception_v3_299",
    "Inception_V4": "inception_v4_299",
    "NASNet large": "nasnet_large_331",
    "NASNet mobile": "nasnet_mobile_224",
    "ResNet_V2_101": "resnet_v2_101_299",
    "SqueezeNet": "squeezenet_1.0_224",
    "SqueezeNetV1.0": "squeezenet_1.0_224",
    "MobileNetV2_224": "mobilenet_v2_1.0_224",
    "inception-v3": "inception_v3_299",
    "mobilenet-v1-1.0": "mobilenet_v1_1.0_224",
    "resnet-v2-50": "resnet_v2_50_224",
    "vgg16": "vgg16_224",
    "vgg19": "vgg19_224",
    "ResNet50": "resnet_50_224",
    "HRNet_w18": "hrnet_w18",
    "SSD_MobileNetV3_large": "ssd_mobilenet_v3_large",
    "densenet": "densenet_121_224",
    "inception_v1": "inception_v1_224",
    "inception_v2": "inception_v2_224",
    "inception_v4": "inception_v4_299",
    "squeezenet": "squeezenet_1.0_224",
    "inception_resnet_v2": "inception_resnet_v2_299",
    "resnet_50_v1": "resnet_50_299",
    "resnet_50_v2": "resnet_v2_50_299",
    "resnet_152_v2": "resnet_v2_152_299",
    "efficientnet_edgetpu_s": "efficientnet_edgetpu_s_224",
    "efficientnet_edgetpu_m": "efficientnet_edgetpu_m_240",
    "mobilenet_v1_ssd": "ssd_mobilenet_v1_224",
    "mobilenet_v2_ssd": "ssd_mobilenet_v2_224",
    "unet_mv2": "unet_mobilenet_v2_128",
    "deeplab_v3": "deeplab_v3_513",
    "resnet50-v2-7": "resnet_v2_50_224",
    "pp_resnet50": "resnet_50_vd_224",
    "person_detect (mobilenet_v1 0.25 96x96x1)": "mobilenet_v1_0.25_96_grey",
    "mobilenet_v1 0.25 (MLPerf tiny VWW)": "mobilenet_v1_0.25_96",
}

_HOSTED = re.compile(r"(Mobilenet_V[12]|MnasNet)_([0-9.]+)_(\d+)")
_FAMILIES = {
    "mobilenetv1": "mobilenet_v1",
    "mobilenetv2": "mobilenet_v2",
    "mobilenetv3": "mobilenet_v3_large",
    "mobilenetv3_large": "mobilenet_v3_large",
    "mobilenetv3_small": "mobilenet_v3_small",
    "mobilenetv3_large_x1_0": "mobilenet_v3_large",
    "mobilenetv3_small_x1_0": "mobilenet_v3_small",
    "shufflenetv2": "shufflenet_v2",
    "squeezenet_v1.1": "squeezenet_1.1",
}


def _width(text: str) -> str:
    """Widths as the catalogue writes them: 1.0, 0.75, 0.5."""
    return str(float(text))


def common(model: str, width: str = "", size: str = "") -> str:
    """Return the project's name of a model given as a name, a width and an input size.

    Args:
        model: the table's name.
        width: width multiplier, or empty.
        size: input size such as ``224``, ``96x96x3`` or ``96x96x1`` (grey), or empty.
    """
    bare = model.removesuffix("_quant")
    if match := _HOSTED.fullmatch(bare):
        return f"{match[1].lower()}_{_width(match[2])}_{match[3]}"
    if bare in _OTHERS:
        return _OTHERS[bare]
    family = _FAMILIES.get(bare.lower(), slugged(bare))
    sides = size.split("x")
    grey = "grey" if len(sides) == 3 and sides[2] == "1" else ""
    return "_".join(part for part in (family, _width(width) if width else "", sides[0], grey) if part)


def slugged(name: str) -> str:
    """Return a name of lower-case letters, digits, dots and underscores."""
    return re.sub(r"[^a-z0-9.]+", "_", name.lower()).strip("_")


def input_side(model: str) -> int | None:
    """Return the side of the input that the project's name of a model states, None if it states none."""
    found = re.search(r"_r?(\d{2,3})(?:_grey)?$", model)
    return int(found[1]) if found else None
