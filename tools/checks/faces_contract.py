"""A contract for import-linter: a room is imported by its face, never by a module inside of it.

``pyproject.toml`` names it; ``lint-imports`` calls it.
"""

from collections.abc import Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class FacesOnly(Contract):
    """Let a module import another room by its face: ``from advisor.room import name``.

    A room is a package directly below the root package. The name may be a public module of the
    room, such as ``advisor.isolation.agent``. The graph lacks the imports for type checkers where
    import-linter excludes them; the check ``tools.checks.structure`` counts these too.
    """

    type_name = "faces_only"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find the imports that pass a face."""
        passing = sorted(
            line
            for root in self.session_options["root_packages"]
            for line in list_passing(graph, root)
        )
        return ContractCheck(kept=not passing, metadata={"passing": passing})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports that pass a face."""
        for line in check.metadata["passing"]:
            output.print_error(line)
        output.new_line()


def list_passing(graph: ImportGraph, root: str) -> Iterator[str]:
    """Yield a line for each import of a module inside of another room."""
    rooms = {room for room in graph.find_children(root) if graph.find_children(room)}
    for importer in graph.find_descendants(root):
        for module in graph.find_modules_directly_imported_by(importer):
            room = ".".join(module.split(".")[:2])
            if (
                room in rooms
                and not f"{importer}.".startswith(f"{room}.")
                and not _is_offered(module)
            ):
                yield f"{importer} imports {module}: import the name from {room}"


def _is_offered(module: str) -> bool:
    """Return whether a module is a room, or a public module directly in one."""
    inside = module.split(".")[2:]
    return not inside or (len(inside) == 1 and not inside[0].startswith("_"))
