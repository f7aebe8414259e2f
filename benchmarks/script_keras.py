"""What a team writes without advisor: one pretrained network in plain Keras, a head, and its top blocks tuned.

    python benchmarks/script_keras.py NETWORK.keras IMAGES OUT

NETWORK takes images in -1..1 and gives features; IMAGES has a folder for each class. OUT gets ``head`` and ``tuned``,
each as ``-float32.tflite`` and ``-int8.tflite`` that take RGB values 0..255, and ``seconds.json`` with the CPU seconds
until each pair of files was there.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.linear_model import LogisticRegression

network, images, out = keras.models.load_model(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
side, seconds = network.inputs[0].shape[1], dict[str, float]()
files = sorted(images.glob("*/*"))
classes = sorted({file.parent.name for file in files})
labels = np.array([classes.index(file.parent.name) for file in files])
pixels = np.stack(
    [np.array(Image.open(file).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)) for file in files]
)

# The lower blocks stay as they are: they run once.
cut = [layer for layer in network.layers if isinstance(layer, keras.layers.Add)][5]
lower, upper = keras.Model(network.inputs, cut.output), keras.Model(cut.output, network.outputs[0])
for layer in upper.layers:
    layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
maps = np.concatenate(
    [lower.predict_on_batch(part / 127.5 - 1) for part in np.array_split(pixels, len(files) // 32 + 1)]
)


def examples() -> Iterator[list[np.ndarray]]:
    for row in np.random.default_rng(0).choice(len(pixels), 100):
        yield [pixels[row][None].astype(np.float32)]


def save(name: str) -> None:
    image = keras.Input((side, side, 3), batch_size=1)
    model = keras.Model(image, head(upper(lower(keras.layers.Rescaling(1 / 127.5, -1)(image)))))
    for form in ("float32", "int8"):
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if form == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = examples
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        (out / f"{name}-{form}.tflite").write_bytes(converter.convert())
    seconds[name] = sum(os.times()[:4])


features = upper.predict(maps, verbose=0)
fitted = LogisticRegression(C=0.1, max_iter=1000).fit(features, labels)
head = keras.layers.Dense(len(classes), activation="softmax")
head.build(features.shape)
head.set_weights([fitted.coef_.T, fitted.intercept_])
save("head")
model = keras.Sequential([keras.Input(maps.shape[1:]), upper, head])
model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy")
model.fit(maps, labels, batch_size=32, epochs=8, verbose=2)
save("tuned")
(out / "seconds.json").write_text(json.dumps(seconds))
