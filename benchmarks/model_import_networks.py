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
TIMM = ("ghostnet_100", "mobileone_s0")
NAMES = (*TORCHVISION, *TIMM)
SIDE = 224


def main(folder: Path, names: list[str]) -> None:
    """Write the networks that are not in the folder yet."""
    import torch

    for name in names or NAMES:
        onnx, program = folder / f"{name}.onnx", folder / f"{name}.pt2"
        if onnx.is_file() and program.is_file():
            continue
        torch.manual_seed(0)
        model, image = _settled(torch, _network(name)), torch.randn(1, 3, SIDE, SIDE)
        torch.export.save(torch.export.export(model, (image,)), program)
        torch.onnx.export(
            model, (image,), onnx, dynamo=True, external_data=False, input_names=["image"], output_names=["scores"]
        )


def _network(name: str) -> Any:
    if name in TIMM:
        import timm

        return timm.create_model(name, pretrained=False)
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


def _settled(torch: Any, model: Any) -> Any:
    """Return the network for inference, its batch normalisation with the statistics of four batches of noise."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None
            module.reset_running_stats()
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(16, 3, SIDE, SIDE))
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
