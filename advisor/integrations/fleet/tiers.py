"""The object that the entry point ``tiers`` in ``advisor.bundle_parts`` names."""

from advisor.integrations.fleet._tiers import TiersPart

PART = TiersPart()
