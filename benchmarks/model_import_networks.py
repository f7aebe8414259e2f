"""Write public networks with random weights as ``.onnx`` and ``.pt2`` files; needs PyTorch, torchvision and timm.

    PYTHON benchmarks/model_import_networks.py FOLDER [NAME ...]

It is run by :mod:`benchmarks.model_import` with the Python of an environment that has these packages, and imports
nothing of advisor. Batch normalisation gets its statistics from four batches of noise: with those of a new network,
most networks answer every image alike.
"""

import sys
from pathlib import Path
from typing import Any

TORCHVISION = (
    "mobilenet_v2",
    "mobilenet_v3_small",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "mnasnet1_0",
    "efficientnet_b0",
    "resnet18",
    "regnet_y_400mf",
)
TIMM = (
    "convnext_atto",
    "edgenext_xx_small",
    "efficientformerv2_s0",
    "efficientvit_b0",
    "fastvit_t8",
    "ghostnet_100",
    "ghostnetv2_100",
    "hardcorenas_a",
    "lcnet_100",
    "levit_128",
    "mixnet_s",
    "mobilenetv4_conv_small",
    "mobilenetv4_hybrid_medium",
    "mobileone_s0",
    "mobilevit_xs",
    "mobilevitv2_050",
    "poolformer_s12",
    "regnety_002",
    "repvit_m0_9",
    "rexnet_100",
    "shvit_s1",
    "starnet_s1",
    "tf_efficientnetv2_b0",
    "tiny_vit_5m_224",
    "tinynet_a",
    "vit_tiny_patch16_224",
)
NAMES = (*TORCHVISION, *TIMM)
SIDE, CLASSES = 224, 1000
DECOMPOSED = ("efficientvit_b0",)
"""Networks whose ``.pt2`` needs the decompositions that the error of its import names."""


def main(folder: Path, names: list[str]) -> None:
    """Write the networks that are not in the folder yet."""
    import torch

    for name in names or NAMES:
        onnx, program = folder / f"{name}.onnx", folder / f"{name}.pt2"
        if onnx.is_file() and program.is_file():
            continue
        torch.manual_seed(0)
        network = _network(name)
        side = getattr(network, "default_cfg", {}).get("input_size", (3, SIDE, SIDE))[1]
        image = torch.randn(1, 3, side, side)
        model = _settled(torch, network, side)
        exported = torch.export.export(model, (image,))
        torch.export.save(exported.run_decompositions({}) if name in DECOMPOSED else exported, program)
        torch.onnx.export(
            model, (image,), onnx, dynamo=True, external_data=False, input_names=["image"], output_names=["scores"]
        )


def _network(name: str) -> Any:
    if name in TIMM:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=CLASSES)
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


def _settled(torch: Any, model: Any, side: int) -> Any:
    """Return the network for inference, its batch normalisation with the statistics of noise, from fine to coarse."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None
            module.reset_running_stats()
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        for coarse in (1, 4, 16, 32):  # like photographs, by which the files are compared
            noise = torch.randn(16, 3, -(-side // coarse), -(-side // coarse))
            noise = torch.nn.functional.interpolate(noise, (side, side), mode="bicubic")
            model(noise / noise.std())
    return model.eval()


def _without_faulty_registration() -> None:
    """Let torchvision load beside a PyTorch that lacks its operators, as builds for the CPU alone do."""
    import torch

    register = torch.library.register_fake

    def skipping(operator: Any, *arguments: Any, **options: Any) -> Any:
        if str(operator).startswith("torchvision::"):
            return lambda function: function
        return register(operator, *arguments, **options)

    torch.library.register_fake = skipping


if __name__ == "__main__":
    _without_faulty_registration()
    main(Path(sys.argv[1]), sys.argv[2:])
