"""Offer the part of reports about a fleet of phones, which ``_report.py`` makes.

The entry point ``fleet`` of ``advisor.report_parts`` names this module and :data:`PART`, and
``reporting/_view.py`` loads it, so both names stay.
"""

from advisor.integrations.fleet._report import FleetPart

PART = FleetPart()
