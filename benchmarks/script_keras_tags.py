"""What a team writes without advisor for several labels an image: a pretrained network in plain Keras, with sigmoids.

    python benchmarks/script_keras_tags.py NETWORK.keras TABLE.csv OUT SECONDS

NETWORK takes images in -1..1 and gives features; TABLE has the columns ``path`` and ``labels``, which ``|`` separates.
OUT gets ``head`` and ``tuned``, each as ``-float32.tflite`` and ``-int8.tflite`` that take RGB values 0..255. Tuning
ends when the process has used SECONDS of CPU time, and keeps the weights with the least loss on every fifth image.
``seconds.json`` has the CPU seconds until each pair of files was there, and the number of epochs.
"""

import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from PIL import Image
from sklearn.linear_model import LogisticRegression

network = keras.models.load_model(sys.argv[1])
out = Path(sys.argv[3])
limit_s = float(sys.argv[4])
side = network.inputs[0].shape[1]
seconds = dict[str, float]()
with Path(sys.argv[2]).open(newline="", encoding="utf-8") as table:
    rows = [(row["path"], {*filter(None, row["labels"].split("|"))}) for row in csv.DictReader(table)]
classes = sorted(set().union(*(labels for _, labels in rows)))
truth = np.array([[name in labels for name in classes] for _, labels in rows], np.float32)
pixels = np.stack(
    [np.array(Image.open(file).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)) for file, _ in rows]
)

# The lower blocks stay as they are: they run once.
cut = [layer for layer in network.layers if isinstance(layer, keras.layers.Add)][5]
lower = keras.Model(network.inputs, cut.output)
upper = keras.Model(cut.output, network.outputs[0])
for layer in upper.layers:
    layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
maps = np.concatenate(
    [lower.predict_on_batch(part / 127.5 - 1) for part in np.array_split(pixels, len(rows) // 32 + 1)]
)


class OutOfTime(keras.callbacks.Callback):
    """Ends the training when the CPU seconds are used."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        seconds["epochs"] = epoch + 1
        # The files are still to be written, which takes as long as those of the head.
        self.model.stop_training = sum(os.times()[:4]) + writing_s >= limit_s


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
fitted = [LogisticRegression(C=0.1, max_iter=1000).fit(features, truth[:, label]) for label in range(len(classes))]
head = keras.layers.Dense(len(classes), activation="sigmoid")
head.build(features.shape)
head.set_weights([np.concatenate([one.coef_ for one in fitted]).T, np.concatenate([one.intercept_ for one in fitted])])
writing_s = -sum(os.times()[:4])
save("head")
writing_s += sum(os.times()[:4])
model = keras.Sequential([keras.Input(maps.shape[1:]), upper, head])
model.compile(keras.optimizers.Adam(1e-4), "binary_crossentropy")
held = np.arange(len(rows)) % 5 == 0
best = keras.callbacks.ModelCheckpoint(
    str(out / "best.weights.h5"), save_best_only=True, save_weights_only=True, monitor="val_loss"
)
judged = (maps[held], truth[held])
model.fit(maps[~held], truth[~held], 32, 10_000, 2, [best, OutOfTime()], validation_data=judged)
model.load_weights(out / "best.weights.h5")
save("tuned")
(out / "seconds.json").write_text(json.dumps({**seconds, "classes": classes}))
