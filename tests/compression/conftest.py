"""One small float classifier and images for its calibration."""

import numpy as np
import pytest

from advisor.datasets import InputSpec
from tests.measurement import small_models

SIDE = 32


@pytest.fixture(scope="session")
def float_model() -> bytes:
    """A float classifier of (1, 32, 32, 3) into 4 classes whose kernels are large enough to be worth compressing."""
    build, image = small_models.Builder.with_image(SIDE)
    last = build.convolution(build.depthwise(build.convolution(image, 48, 3, 2)), 64)
    pooled = build.mean(build.convolution(build.depthwise(last), 128))
    return build.finish({"image": image}, {"probabilities": build.head(pooled, 4)})


@pytest.fixture(scope="session")
def photographs() -> np.ndarray:
    return InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3).draw_photographs()[::4]
