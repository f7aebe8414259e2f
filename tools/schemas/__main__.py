"""Write every schema: ``python -m tools.schemas [FOLDER]``, by default into ``build/schemas``."""

import sys
from pathlib import Path

from tools.schemas import SCHEMAS, write_schemas

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SCHEMAS
write_schemas(folder)
print(f"wrote the schemas into {folder}")
