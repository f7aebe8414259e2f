"""One published or measured latency of a model on a target: a row of a profile's CSV.

The names and the order of the fields are the columns of the file. They are also a part of a
profile's fingerprint, which is a part of keys in the cache.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """One latency of one model on one target."""

    target: str  # name of the target within its profile, such as ``tflite-npu``
    model: str  # name of the model, that of the catalogue if it has one (``mobilenet_v2_1.0_224``)
    precision: str  # form of the artefact, one of :data:`.PRECISIONS`
    latency_ms: float  # milliseconds of one inference at batch size 1
    statistic: str = "unstated"  # statistic of the repetitions, one of :data:`.STATISTICS`
    # Peak memory as the source defines it, None if not stated.
    peak_memory_bytes: int | None = None
    flag: str = ""  # the reason why the row is not used for predictions (:data:`.FLAGS`), or empty
    source_repo: str = ""  # repository or site of the figure, or ``calibrated``
    source_path: str = ""  # file or address in it
    job: str = ""  # the source's identifier of the run, or empty
    # Side of the network's square input in pixels, None if not stated.
    input_side: int | None = None
    # Version of the network's graph as the source names it; ``unstated`` or empty if it does not.
    graph: str = ""
    # versions of the runtime and its parts, such as ``1.30.0+qairt2.50.0``; ``unstated`` or empty
    runtime_version: str = ""

    @property
    def usable(self) -> bool:
        """True if predictions may use the row."""
        return not self.flag
