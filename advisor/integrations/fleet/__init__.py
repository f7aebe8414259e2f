"""One app, many phones: the few files that serve a fleet, and the choice among them on the phone.

The entry point ``advisor.fleets`` names this module, and ``advisor.api`` calls these functions.
Read ``_phones.py`` first (the phones of a team) with ``_phone_devices.py`` (what is known of
them), then ``_predictions.py`` (each file on each phone), ``_choice.py`` (which files),
``_answer.py`` (how many), ``_rules.py`` and ``_tiers.py`` (what ships). ``_report.py``,
``_changes.py`` and ``_verify.py`` show, repeat and check the answer. ``selector.py`` and
``on_device.py`` are programs: they are copied into bundles and onto devices. Apps that are shipped
read the keys of ``tiers.json``: they stay, or ``SCHEMA_VERSION`` of ``_tiers.py`` rises.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.integrations.fleet._changes import FleetChange, reevaluate_fleet
    from advisor.integrations.fleet._phones import read_fleet
    from advisor.integrations.fleet._verify import VerifiedFiles, verify_bundle
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "FleetChange",
    "VerifiedFiles",
    "read_fleet",
    "reevaluate_fleet",
    "verify_bundle",
]
