"""Find which definition of the package refers to which, by reading its source.

A definition is a function, a class, a method or a constant at the top of a module. A reference is
a name, an attribute of an imported module, or a text that names a module.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tools.checks.structure.source import Module

PACKAGE = "advisor"
MOST_ALIKE = 8
"""Classes that may have the one method of a protocol by chance."""

ANNOTATIONS = ("annotation", "returns")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

NAMED_MODULE = re.compile(rf"({PACKAGE}(?:\.\w+)+)(?::(\w*))?")
"""A text that names a module: ``advisor.room._module``, or with a colon and what is in it."""


NAMED_BESIDE = re.compile(r"\.?(\w+):(\w+)")
"""A text that names a function of a module in the same room, such as ``records:RecordFile``."""


class Definition(NamedTuple):
    """A function, class or constant of a module, a method as ``Class.method``; a whole module has
    no name.
    """

    module: str
    name: str = ""

    @property
    def owner(self) -> "Definition":
        """The class of a method; else the definition itself."""
        return Definition(self.module, self.name.partition(".")[0])


class References(NamedTuple):
    """The definitions to which a part of a module refers."""

    plain: set[Definition]
    types: set[Definition]  # in annotations
    attributes: set[str]  # names of attributes of anything
    siblings: set[str]  # those of ``self``

    @classmethod
    def join(cls, several: Sequence["References"]) -> "References":
        """Return the references of several parts as one."""
        joined = cls(set(), set(), set(), set())
        for references in several:
            joined.plain.update(references.plain)
            joined.types.update(references.types)
            joined.attributes.update(references.attributes)
            joined.siblings.update(references.siblings)
        return joined


class Package:
    """The modules of the package with their definitions and references."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self._definitions = dict[str, Mapping[str, list[ast.AST]]]()
        self._imports = dict[str, Mapping[str, tuple[str, str]]]()

    def definitions(self, module: str) -> Mapping[str, list[ast.AST]]:
        """Return the statements of each definition of a module."""
        if module not in self._definitions:
            self._definitions[module] = _list_definitions(self.modules[module])
        return self._definitions[module]

    def imports(self, module: str) -> Mapping[str, tuple[str, str]]:
        """Return the module and the name of each name that a module imports from the package."""
        if module not in self._imports:
            self._imports[module] = _list_imports(self.modules[module])
        return self._imports[module]

    def find(self, source: str, name: str) -> Definition | None:
        """Return what an imported name is; a face hands out names of other modules."""
        if f"{source}.{name}" in self.modules:
            return Definition(f"{source}.{name}")
        if source not in self.modules:
            return None
        if name in self.definitions(source):
            return Definition(source, name)
        inner = self.imports(source).get(name)
        return self.find(*inner) if inner and inner != (source, name) else None

    def resolve(self, module: str, node: ast.AST) -> list[Definition]:
        """Return what a name, or an attribute of an imported module, is in a module; nothing for
        what the package does not define.
        """
        definition = None
        if isinstance(node, ast.Name):
            if node.id in self.definitions(module):
                return [Definition(module, node.id)]
            imported = self.imports(module).get(node.id)
            definition = self.find(*imported) if imported else None
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self.imports(module).get(node.value.id)
            room = self.find(*owner) if owner else None
            if room and not room.name:
                definition = self.find(room.module, node.attr)
        return [definition] if definition else []

    def list_references(self, module: str, node: ast.AST) -> References:
        """Return what a part of a module refers to."""
        references = References(set(), set(), set(), set())
        bound = set[str]()
        names = list[tuple[ast.Name, set[Definition]]]()
        waiting = [(node, references.plain)]
        while waiting:
            part, targets = waiting.pop()
            for field in part._fields:
                value = getattr(part, field, None)
                below = references.types if field in ANNOTATIONS else targets
                # What is caught makes no result.
                if isinstance(part, ast.ExceptHandler) and field == "type":
                    below = set()
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                        waiting.append((child, below))
            if isinstance(part, ast.arg):
                bound.add(part.arg)
            elif isinstance(part, ast.Name):
                names.append((part, targets))
                if isinstance(part.ctx, ast.Store):
                    bound.add(part.id)
            elif isinstance(part, ast.Attribute):
                targets.update(self.resolve(module, part))
                references.attributes.add(part.attr)
                if isinstance(part.value, ast.Name) and part.value.id == "self":
                    references.siblings.add(part.attr)
            elif isinstance(part, ast.Constant):
                targets.update(self.find_named(module, part.value))
            elif isinstance(part, ast.JoinedStr):
                targets.update(self.find_own(module, part))
            elif isinstance(part, ast.Call):
                references.types.update(self._find_cast(module, part))
        for name, targets in names:
            # Arguments and variables of a function hide what the module defines. The name of a
            # module stands before an attribute, which is resolved as a whole.
            if name.id not in bound or not isinstance(node, FUNCTIONS):
                targets.update(target for target in self.resolve(module, name) if target.name)
        return references

    def place(self, definition: Definition) -> str:
        """Return path and line of a definition."""
        node = self.definitions(definition.module)[definition.name][0]
        return self.modules[definition.module].place(getattr(node, "lineno", 1))

    def find_named(self, module: str, text: object) -> Iterator[Definition]:
        """Yield the definition or the module that a text in a module names."""
        if not isinstance(text, str):
            return
        match = NAMED_MODULE.fullmatch(text)
        if match and match[1] in self.modules:
            yield (match[2] and self.find(match[1], match[2])) or Definition(match[1])
        match = NAMED_BESIDE.fullmatch(text)
        if match:
            room = f"{PACKAGE}.{self.modules[module].room}."
            for other in self.modules:
                if other.startswith(room) and other.endswith(f".{match[1]}"):
                    yield from filter(None, [self.find(other, match[2])])

    def find_own(self, module: str, text: ast.JoinedStr) -> Iterator[Definition]:
        """Yield the function of a module that ``f"{__name__}:function"`` names for a child, or the
        modules below it that ``f"{__name__}.{module}"`` may name.
        """
        if len(text.values) < 2 or ast.unparse(text.values[0]) != "{__name__}":
            return
        second = text.values[1]
        name = str(second.value)[1:] if isinstance(second, ast.Constant) else ""
        if name in self.definitions(module):
            yield Definition(module, name)
        elif not name:
            for part in self.modules[module].nodes:
                named = part.value if isinstance(part, ast.Constant) else None
                if isinstance(named, str) and f"{module}.{named}" in self.modules:
                    yield Definition(f"{module}.{named}")

    def _find_cast(self, module: str, call: ast.Call) -> Iterator[Definition]:
        """Yield the class of ``cast("Class", value)``."""
        if not (isinstance(call.func, ast.Name) and call.func.id == "cast"):
            return
        kind = call.args[0]
        if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
            yield from self.resolve(module, ast.parse(kind.value, mode="eval").body)

    @cached_property
    def classes(self) -> Mapping[Definition, ast.ClassDef]:
        """The classes of the package."""
        classes = {}
        for module in self.modules:
            for name, nodes in self.definitions(module).items():
                for node in nodes:
                    if isinstance(node, ast.ClassDef):
                        classes[Definition(module, name)] = node
        return classes

    @cached_property
    def methods(self) -> Mapping[Definition, Mapping[str, str]]:
        """The methods of each class with what they return, as text."""
        methods = {}
        for owner, node in self.classes.items():
            functions = [part for part in node.body if isinstance(part, FUNCTIONS)]
            methods[owner] = {
                part.name: ast.unparse(part.returns) if part.returns else "" for part in functions
            }
        return methods

    @cached_property
    def bases(self) -> Mapping[Definition, Collection[Definition]]:
        """The classes that each class inherits from, through all levels."""
        bases = {}
        for owner in self.classes:
            seen = set[Definition]()
            waiting = [owner]
            while waiting:
                kind = waiting.pop()
                for base in self.classes[kind].bases if kind in self.classes else ():
                    named = set(self.resolve(kind.module, _without_index(base))) - seen
                    seen |= named
                    waiting.extend(named)
            bases[owner] = seen
        return bases

    @cached_property
    def implementations(self) -> Mapping[Definition, Collection[Definition]]:
        """The classes that inherit from each class, or have the methods of a protocol."""
        implementing = defaultdict[Definition, set[Definition]](set)
        for owner, bases in self.bases.items():
            for base in bases:
                implementing[base].add(owner)
        for protocol, node in self.classes.items():
            methods = self.methods[protocol]
            if not methods or "Protocol" not in map(ast.unparse, node.bases):
                continue
            alike = [kind for kind in self.classes if methods.keys() <= self.methods[kind].keys()]
            # Many classes have a method such as "read": those count that return the same.
            if len(methods) == 1 and len(alike) > MOST_ALIKE:
                alike = [kind for kind in alike if methods.items() <= self.methods[kind].items()]
            implementing[protocol] |= set(alike) - {protocol}
        return implementing

    @cached_property
    def references(self) -> Mapping[Definition, References]:
        """The references of each definition; those of a method are not those of its class."""
        references = {}
        for module in self.modules:
            for name, nodes in self.definitions(module).items():
                parts = []
                for node in nodes:
                    if isinstance(node, ast.ClassDef):
                        parts += [
                            part for part in ast.iter_child_nodes(node) if not _is_function(part)
                        ]
                    else:
                        parts.append(node)
                gathered = [self.list_references(module, part) for part in parts]
                references[Definition(module, name)] = References.join(gathered)
        return references

    @cached_property
    def calls(self) -> Mapping[Definition, Collection[Definition]]:
        """The definitions to which each one refers, without the types of arguments and fields."""
        return self._make_graph(typed=False)

    @cached_property
    def typed_calls(self) -> Mapping[Definition, Collection[Definition]]:
        """The definitions to which each one refers, with the types of arguments and fields, and
        the methods of classes that implement one of these.
        """
        return self._make_graph(typed=True)

    def _make_graph(self, typed: bool) -> Mapping[Definition, Collection[Definition]]:
        graph = defaultdict[Definition, set[Definition]](set)
        for definition, references in self.references.items():
            module, name = definition
            targets = graph[definition]
            targets |= references.plain
            if typed:
                targets.update(self.list_methods_called(references.types, references.attributes))
            owner, _, method = name.partition(".")
            if method:
                graph[Definition(module, owner)].add(definition)
                kinds = [Definition(module, owner)]
                if typed:
                    kinds += self.implementations.get(kinds[0], ())
                for kind in kinds:
                    for sibling in references.siblings & self.methods.get(kind, {}).keys():
                        targets.add(Definition(kind.module, f"{kind.name}.{sibling}"))
            graph[Definition(module)].add(definition)
        return graph

    def list_methods_called(
        self, types: Collection[Definition], attributes: Collection[str]
    ) -> Iterator[Definition]:
        """Yield the methods with these names of the classes that a value of some types can be."""
        kinds = set[Definition]()
        waiting = list(types)
        while waiting:
            kind = waiting.pop()
            if kind in kinds or kind not in self.references:
                continue
            kinds.add(kind)
            if kind in self.classes:
                waiting.extend(self.implementations.get(kind, ()))
            else:
                # A name for other types.
                waiting.extend(self.references[kind].plain)
        for kind in kinds & self.classes.keys():
            for owner in (kind, *self.bases[kind]):
                for method in self.methods.get(owner, {}).keys() & attributes:
                    yield Definition(owner.module, f"{owner.name}.{method}")


def reach(
    graph: Mapping[Definition, Collection[Definition]],
    roots: Collection[Definition],
    stops: Collection[Definition] = (),
) -> frozenset[Definition]:
    """Return all that some definitions refer to, but not through ``stops``."""
    seen = set(roots)
    waiting = list(roots)
    while waiting:
        for target in graph.get(waiting.pop(), ()):
            if target not in seen and target not in stops and target.owner not in stops:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, FUNCTIONS)


def _list_definitions(module: Module) -> Mapping[str, list[ast.AST]]:
    definitions = defaultdict[str, list[ast.AST]](list)
    for statement in module.tree.body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            definitions[statement.name].append(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for part in ast.walk(statement):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    definitions[part.id].append(statement)
        if isinstance(statement, ast.ClassDef):
            for method in statement.body:
                if isinstance(method, FUNCTIONS):
                    definitions[f"{statement.name}.{method.name}"].append(method)
    return definitions


def _list_imports(module: Module) -> Mapping[str, tuple[str, str]]:
    imports = {}
    for node in module.nodes:
        if not isinstance(node, ast.ImportFrom) or node.level:
            continue
        source = node.module or ""
        if source.partition(".")[0] == PACKAGE:
            for alias in node.names:
                imports[alias.asname or alias.name] = (source, alias.name)
    return imports


def _without_index(node: ast.AST) -> ast.AST:
    """Return ``Base`` of ``Base[Argument]``."""
    return node.value if isinstance(node, ast.Subscript) else node
