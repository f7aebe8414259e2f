"""The object that the entry point ``fleet`` in ``advisor.report_parts`` names."""

from advisor.integrations.fleet._report import FleetPart

PART = FleetPart()
