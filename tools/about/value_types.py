"""Find which methods a module calls on values of other modules, by the types of these values.

The type of a value is read from annotations, and followed through assignments, calls, fields,
loops and ``with``. Nothing runs: a value of unknown type has no methods here.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from tools.about.package import FUNCTIONS, Definition, Package

ROUNDS = 2
"""Passes over a function: a variable may be used above the line that says its type."""

TRANSPARENT = {"Optional", "Annotated", "ClassVar", "Final", "type", "Self"}
SAME_TYPE = {"replace", "copy", "deepcopy", "sorted", "list", "tuple", "reversed", "iter", "set"}
OF_ELEMENT = {"next", "max", "min"}
WITH_NUMBER = "enumerate"
TOGETHER = "zip"
BINDING = (
    ast.arg,
    ast.AnnAssign,
    ast.Assign,
    ast.NamedExpr,
    ast.For,
    ast.comprehension,
    ast.withitem,
)
MAPPINGS = {"Mapping", "dict", "defaultdict", "MutableMapping"}


class Value(NamedTuple):
    """What a value may be: a class of the package, or a container with the values inside."""

    kind: Definition | str
    inside: tuple["Values", ...] = ()


Values = frozenset[Value]
NOTHING: Values = frozenset()
Variables = dict[str, Values]


class MethodUse(NamedTuple):
    """A method that a module calls, or a property that it reads."""

    method: Definition
    through: str = ""  # the protocol or base class that the value is known as


class ValueTypes:
    """The types of the values in a package."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._fields = dict[Definition, Mapping[str, Values]]()

    def list_methods(self, module: str) -> Iterator[MethodUse]:
        """Yield the methods that a module uses, those of its own classes included."""
        for function, owner in self._functions(module):
            attributes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
            if not attributes:
                continue
            variables = self._read_variables(module, function, owner)
            for node in attributes:
                for value in self._infer(module, node.value, variables):
                    yield from self._find_methods(value, node.attr)

    def _functions(self, module: str) -> Iterator[tuple[ast.AST, Definition | None]]:
        """Yield the functions and methods of a module, with the class of a method."""
        for statement in self._package.modules[module].tree.body:
            if isinstance(statement, ast.ClassDef):
                owner = Definition(module, statement.name)
                for part in statement.body:
                    yield part, owner if isinstance(part, FUNCTIONS) else None
            else:
                yield statement, None

    def _find_methods(self, value: Value, name: str) -> Iterator[MethodUse]:
        package = self._package
        if isinstance(value.kind, str):
            return
        for owner in (value.kind, *package.bases[value.kind]):
            if name in package.methods.get(owner, {}):
                yield MethodUse(Definition(owner.module, f"{owner.name}.{name}"))
        for other in package.implementations.get(value.kind, ()):
            if name in package.methods[other]:
                method = Definition(other.module, f"{other.name}.{name}")
                yield MethodUse(method, value.kind.name)

    def _read_variables(
        self, module: str, function: ast.AST, owner: Definition | None
    ) -> Variables:
        """Return the types of the arguments and variables of a function."""
        variables = defaultdict[str, Values](frozenset)
        if owner:
            variables["self"] = variables["cls"] = frozenset([Value(owner)])
        binding = [node for node in ast.walk(function) if isinstance(node, BINDING)]
        for _ in range(ROUNDS):
            for node in binding:
                for target, values in self._list_bound(module, node, variables):
                    self._bind(target, values, variables)
        return variables

    def _list_bound(
        self, module: str, node: ast.AST, variables: Variables
    ) -> Iterator[tuple[ast.AST, Values]]:
        """Yield what a part of a function gives a value to, with the type of this value."""
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield ast.Name(node.arg), self._read(module, node.annotation)
        elif isinstance(node, ast.AnnAssign):
            yield node.target, self._read(module, node.annotation)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield target, self._infer(module, node.value, variables)
        elif isinstance(node, ast.NamedExpr):
            yield node.target, self._infer(module, node.value, variables)
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield node.target, _open(self._infer(module, node.iter, variables))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield node.optional_vars, self._enter(module, node.context_expr, variables)

    def _bind(self, target: ast.AST, values: Values, variables: Variables) -> None:
        if isinstance(target, ast.Name):
            variables[target.id] |= values
        elif isinstance(target, ast.Tuple):
            for place, part in enumerate(target.elts):
                inside = NOTHING
                for value in values:
                    if value.kind == "tuple" and len(value.inside) == len(target.elts):
                        inside |= value.inside[place]
                self._bind(part, inside or _open(values), variables)

    def _enter(self, module: str, node: ast.expr, variables: Variables) -> Values:
        """Return what ``with`` gives: what a context manager yields, or ``__enter__`` returns."""
        inferred = NOTHING
        for value in self._infer(module, node, variables):
            if value.kind in ("Iterator", "Generator"):
                inferred |= value.inside[0]
            elif not isinstance(value.kind, str):
                inferred |= self._member(value.kind, "__enter__") or frozenset([value])
        return inferred

    def _infer(self, module: str, node: ast.AST, variables: Variables) -> Values:
        """Return what an expression may be."""
        if isinstance(node, ast.Name):
            return variables.get(node.id) or self._name_values(module, node)
        if isinstance(node, ast.Attribute):
            inferred = self._name_values(module, node)
            for value in self._infer(module, node.value, variables):
                if not isinstance(value.kind, str):
                    inferred |= self._member(value.kind, node.attr)
            return inferred
        if isinstance(node, ast.Call):
            return self._infer_call(module, node, variables)
        if isinstance(node, ast.Subscript):
            return _index(self._infer(module, node.value, variables))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return frozenset([Value("list", (self._infer(module, node.elt, variables),))])
        if isinstance(node, ast.DictComp):
            parts = (self._infer(module, part, variables) for part in (node.key, node.value))
            return frozenset([Value("dict", tuple(parts))])
        if isinstance(node, (ast.List, ast.Set, ast.Tuple)):
            inside = tuple(self._infer(module, part, variables) for part in node.elts)
            name = "tuple" if isinstance(node, ast.Tuple) else "list"
            return frozenset([Value(name, inside)])
        if isinstance(node, ast.IfExp):
            parts = (self._infer(module, part, variables) for part in (node.body, node.orelse))
            return frozenset().union(*parts)
        if isinstance(node, ast.BoolOp):
            parts = (self._infer(module, part, variables) for part in node.values)
            return frozenset().union(*parts)
        if isinstance(node, ast.NamedExpr | ast.Starred):
            return self._infer(module, node.value, variables)
        return NOTHING

    def _infer_call(self, module: str, call: ast.Call, variables: Variables) -> Values:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        arguments = [self._infer(module, part, variables) for part in call.args]
        if name == "cast" and call.args:
            return self._read(module, call.args[0])
        if name == TOGETHER:
            return frozenset([Value("list", (_pair(map(_open, arguments)),))])
        if arguments and name == WITH_NUMBER:
            return frozenset([Value("list", (_pair([NOTHING, _open(arguments[0])]),))])
        if arguments and name in OF_ELEMENT:
            return frozenset().union(*(_open(values) or values for values in arguments))
        if arguments and name in SAME_TYPE:
            return arguments[0]
        inferred = self._infer(module, call.func, variables)
        if isinstance(call.func, ast.Attribute):
            owners = self._infer(module, call.func.value, variables)
            inferred |= _call_mapping(owners, call.func.attr)
        return inferred

    def _name_values(self, module: str, node: ast.AST) -> Values:
        """Return the class that a name is, or what the function or constant of this name gives."""
        inferred = NOTHING
        for definition in self._package.resolve(module, node):
            if definition in self._package.classes:
                inferred |= {Value(definition)}
                continue
            for statement in self._package.definitions(definition.module).get(definition.name, ()):
                annotation = getattr(statement, "returns", None)
                annotation = annotation or getattr(statement, "annotation", None)
                if annotation is not None:
                    inferred |= self._read(definition.module, annotation)
        return inferred

    def _member(self, kind: Definition, name: str) -> Values:
        """Return what a field, a property or a call of a method of a class is."""
        for owner in (kind, *self._package.bases[kind]):
            inferred = self._members(owner).get(name)
            if inferred:
                return inferred
        return NOTHING

    def _members(self, kind: Definition) -> Mapping[str, Values]:
        if kind in self._fields or kind not in self._package.classes:
            return self._fields.get(kind, {})
        # A class may refer to itself while its members are read.
        members = defaultdict[str, Values](frozenset)
        self._fields[kind] = members
        for part in self._package.classes[kind].body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                members[part.target.id] |= self._read(kind.module, part.annotation)
            elif isinstance(part, FUNCTIONS) and part.returns is not None:
                is_self = ast.unparse(part.returns) == "Self"
                returned = self._read(kind.module, part.returns)
                members[part.name] |= frozenset([Value(kind)]) if is_self else returned
        for part in self._package.classes[kind].body:
            if isinstance(part, FUNCTIONS):
                self._read_own_fields(kind, part, members)
        return members

    def _read_own_fields(
        self, kind: Definition, method: ast.AST, members: dict[str, Values]
    ) -> None:
        """Add the attributes that a method sets."""
        parts = [part for part in ast.walk(method) if isinstance(part, ast.Attribute)]
        if not any(isinstance(part.ctx, ast.Store) for part in parts):
            return
        variables = self._read_variables(kind.module, method, kind)
        for node in ast.walk(method):
            for target, values in self._list_bound(kind.module, node, variables):
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    members[target.attr] |= values

    def _read(self, module: str, annotation: ast.AST) -> Values:
        """Return the values that an annotation describes."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            with suppress(SyntaxError):  # A text that is no name of a type, as in ``Literal``
                return self._read(module, ast.parse(annotation.value, mode="eval").body)
            return NOTHING
        if isinstance(annotation, ast.BinOp):
            left = self._read(module, annotation.left)
            return left | self._read(module, annotation.right)
        if isinstance(annotation, ast.Subscript):
            parts = annotation.slice
            arguments = parts.elts if isinstance(parts, ast.Tuple) else [parts]
            inside = tuple(self._read(module, part) for part in arguments)
            named = self._read(module, annotation.value)
            if named:
                return named
            name = _last_name(annotation.value)
            return inside[0] if name in TRANSPARENT else frozenset([Value(name, inside)])
        inferred = NOTHING
        for definition in self._package.resolve(module, annotation):
            inferred |= self._read_definition(definition)
        return inferred

    def _read_definition(self, definition: Definition) -> Values:
        """Return the values of a class, or of a name for other types."""
        if definition in self._package.classes:
            return frozenset([Value(definition)])
        return self._aliases.get(definition, NOTHING)

    @cached_property
    def _aliases(self) -> Mapping[Definition, Values]:
        """The names for other types: ``Values = Sequence[Value]``."""
        aliases = dict[Definition, Values]()
        self.__dict__["_aliases"] = aliases
        for module in self._package.modules:
            for name, nodes in self._package.definitions(module).items():
                value = getattr(nodes[0], "value", None)
                is_type = isinstance(value, ast.Subscript | ast.BinOp)
                if is_type and isinstance(nodes[0], ast.Assign):
                    aliases[Definition(module, name)] = self._read(module, value)
        return aliases


def _last_name(node: ast.AST) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _pair(parts: Iterable[Values]) -> Values:
    return frozenset([Value("tuple", tuple(parts))])


def _open(values: Values) -> Values:
    """Return what a loop over a value gives."""
    inferred = NOTHING
    for value in values:
        if isinstance(value.kind, str):
            inside = value.inside[:1] if value.kind in MAPPINGS else value.inside
            inferred = inferred.union(*inside)
    return inferred


def _index(values: Values) -> Values:
    """Return what ``value[place]`` gives; a part of a sequence counts as its elements, too."""
    inferred = NOTHING
    for value in values:
        if isinstance(value.kind, str):
            inside = value.inside[1:] if value.kind in MAPPINGS else value.inside
            inferred = inferred.union(*inside)
    return inferred | values


def _call_mapping(values: Values, method: str) -> Values:
    """Return what a method of a mapping gives."""
    inferred = NOTHING
    for value in values:
        if value.kind not in MAPPINGS or len(value.inside) != 2:
            continue
        if method == "items":
            inferred |= {Value("list", (frozenset([Value("tuple", value.inside)]),))}
        elif method == "values":
            inferred |= {Value("list", value.inside[1:])}
        elif method in ("get", "pop", "setdefault"):
            inferred |= value.inside[1]
    return inferred
