"""Name the runtimes of this machine in the words of a report, and say which latencies of devices
are of runtimes that do not run ``.tflite`` files.

``reporting/_device_results.py`` calls both: reports do not know the profiles of devices.
"""

from collections.abc import Iterable

from advisor.devices import runtime_of, runtime_remark, title_of


def name_runtime(device: str) -> str:
    """Return the name of a runtime of this machine for people; empty for another device."""
    return title_of(device)


def list_foreign_runtimes(places: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each device and runtime whose latencies belong to no runtime of
    ``.tflite`` files.
    """
    remarks = []
    for device, runtime in places:
        # An export of the file runs in a runtime of this machine,
        # so its latencies are those of the file.
        if runtime_of(device) is None:
            remark = runtime_remark(device, runtime)
            if remark and remark not in remarks:
                remarks.append(remark)
    return remarks
