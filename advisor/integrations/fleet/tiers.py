"""The entry point of the files for a fleet in a bundle."""

from advisor.integrations.fleet._tiers import TiersPart

PART = TiersPart()
