"""A contract for import-linter: the order of the rooms holds for imports of type checkers, too.

``pyproject.toml`` names it; ``lint-imports`` calls it. The linter's own contract leaves out what
stands below ``if TYPE_CHECKING``.
"""

from collections.abc import Iterator, Sequence

from grimp import ImportGraph, build_graph
from importlinter import Contract, ContractCheck, fields, output


class TypedLayers(Contract):
    """Let no room import a higher one, not even below ``if TYPE_CHECKING:``.

    ``layers`` are the rooms from the top down; rooms of one line stand side by side. The other
    contracts leave these imports out, because modules inside a room may name each other's types.
    """

    type_name = "typed_layers"

    layers = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find the imports that point upward, in a graph with those of type checkers."""
        roots = self.session_options["root_packages"]
        typed = build_graph(*roots, exclude_type_checking_imports=False)
        layers: Sequence[str] = self.layers  # type: ignore[assignment]
        pointing = sorted(list_upward(typed, layers))
        return ContractCheck(kept=not pointing, metadata={"pointing": pointing})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports that point upward."""
        for line in check.metadata["pointing"]:
            output.print_error(line)
        output.new_line()


def list_upward(graph: ImportGraph, layers: Sequence[str]) -> Iterator[str]:
    """Yield a line for each import of a module in a higher layer;
    ``layers`` begins with the highest.
    """
    height: dict[str, int] = {}
    for place, line in enumerate(layers):
        for room in line.split("|"):
            height[room.strip()] = -place
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            below = height.get(_room_of(importer))
            above = height.get(_room_of(imported))
            if below is not None and above is not None and above > below:
                yield f"{importer} imports {imported}, which is above it"


def _room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])
