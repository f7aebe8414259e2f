"""The entry point of the fleet in the reports of a run."""

from advisor.integrations.fleet._report import FleetPart

PART = FleetPart()
