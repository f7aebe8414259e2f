"""The options of a search by their names."""

from advisor.core._option import Table, table_of
from advisor.core._options import LimitOptions, PlanOptions, SearchOptions

LIMITS = table_of(LimitOptions)

PLAN: Table = table_of(PlanOptions)

SEARCH = table_of(SearchOptions)
