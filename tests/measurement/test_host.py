"""The machine's description."""

import json
import os
from dataclasses import replace

from advisor.measurement import host


def test_description_is_that_of_this_machine() -> None:
    found = host.describe()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.memory_bytes > 2**28
    assert found.cpu
    assert found.architecture == os.uname().machine
    json.dumps(found.to_json())


def test_description_tells_no_machine_name() -> None:
    text = json.dumps(host.describe().to_json())
    assert os.uname().nodename not in text


def test_fingerprint_changes_with_what_the_speed_depends_on_only() -> None:
    found = host.describe()
    same = replace(found, system="another release", governor="powersave", memory_bytes=found.memory_bytes + 4096)
    assert same.fingerprint == found.fingerprint
    assert replace(found, cpu="another").fingerprint != found.fingerprint
    assert replace(found, cores=found.cores + 1).fingerprint != found.fingerprint
    assert replace(found, features=()).fingerprint != found.fingerprint
