"""Find the documents with a ``schema_version``, and the classes whose fields are their entries."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tools.about.package import PACKAGE, Definition, Package, reach

KEY = "schema_version"

OF_RUNS = Definition("advisor.store._run_documents", "SCHEMA_VERSION")
"""The version of the documents that a search writes into its folder."""

IN_RUNS = {
    "evaluations.jsonl": Definition("advisor.core._evaluation", "Evaluation"),
    "labels.json": Definition("advisor.engine._history.label_check", "CheckedLabels"),
    "diagnosis.json": Definition("advisor.core._diagnosis", "Diagnosis"),
}
"""The documents in the folder of a run that have the fields of a class as entries."""


@dataclass(frozen=True)
class Document:
    """A document that other programs read.

    Attributes:
        owner: the class or function that makes it.
        place: path and line of its ``schema_version``.
        types: the classes whose fields are its entries.
        file: its name in the folder of a run; empty for what commands print.
    """

    owner: Definition
    place: str
    types: Collection[Definition]
    file: str = ""

    def show(self) -> str:
        """Return where its version is, in words."""
        if self.file:
            return f"{self.owner.name} of {self.file} ({self.place.removeprefix(f'{PACKAGE}/')})"
        return f"{KEY} of {self.owner.name} ({self.place.removeprefix(f'{PACKAGE}/')})"


def list_documents(package: Package) -> list[Document]:
    """Return the documents of a package."""
    fields = {}
    for kind, node in package.classes.items():
        types = set[Definition]()
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign):
                types |= package.list_references(kind.module, statement).types
        fields[kind] = types | set(package.bases[kind])
    documents = []
    for owner, place in _list_versions(package):
        roots = {owner.owner}
        if owner.owner not in package.classes:
            roots |= package.references[owner].types
        documents.append(Document(owner, place, reach(fields, roots) & {*package.classes, owner}))
    for file, kind in IN_RUNS.items():
        place = package.place(OF_RUNS)
        documents.append(Document(OF_RUNS, place, reach(fields, [kind]) & {*fields}, file))
    return documents


def _list_versions(package: Package) -> Iterator[tuple[Definition, str]]:
    """Yield each definition that writes the version, with the line of the version."""
    for module, source in package.modules.items():
        if KEY not in source.text:
            continue
        for name, nodes in package.definitions(module).items():
            for node in nodes:
                for version in _list_values(node):
                    owner = Definition(module, name)
                    place = source.place(version.lineno)
                    for definition in package.resolve(module, version):
                        place = package.place(definition)
                    yield owner, place


def _list_values(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the value of the version that a class has, or that a function writes."""
    if isinstance(node, ast.ClassDef):
        for statement in node.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == KEY:
                yield statement.value
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Dict):
            for key, value in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == KEY:
                    yield value
        elif isinstance(part, ast.Call) and len(part.args) == 2:
            first = part.args[0]
            is_set = isinstance(part.func, ast.Attribute) and part.func.attr == "setdefault"
            if is_set and isinstance(first, ast.Constant) and first.value == KEY:
                yield part.args[1]
