"""The tables of the options of a plan and a search, by name, in the order of the help.

``cli`` makes options of them, ``api`` request files and requests. Made here once, because reading
the types takes time.
"""

from advisor.core._option import Table, table_of
from advisor.core._options import PlanOptions, SearchOptions

PLAN: Table = table_of(PlanOptions)

SEARCH = table_of(SearchOptions)
