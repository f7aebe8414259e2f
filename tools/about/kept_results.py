"""Find the results that the package keeps under a key with a version, and what they are made with.

Such a result is that of a ``Stage(...)``, of an ``ArtifactCache().get("name-1", ...)``, of a class
with a ``version`` (recipes and tasks), or of a function that reads the ``VERSION`` of its module.
What makes it is followed from its job, through all functions that this calls in the package.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tools.about.package import FUNCTIONS, Definition, Package, References, reach

LOOKED_UP = ("advisor.tasks.", "advisor.integrations.")
"""Rooms that no other one imports: a job finds their functions by name."""

HASH = Definition("advisor.store._files", "sha256_json")

QUOTES = "'"

CACHE_CLASS = Definition("advisor.store._cache", "ArtifactCache")
CACHE = "ArtifactCache()"


@dataclass(frozen=True)
class KeptResult:
    """A result that is kept under a key with a version.

    Attributes:
        owner: the function, class or module that declares it.
        version: the version in words, such as ``version "3"`` or ``HEAD_VERSION``.
        place: path and line of this version.
        further: constants of other versions in the key.
        work: the functions that a child process runs for it.
        made_with: all definitions that make it.
    """

    owner: Definition
    version: str
    place: str
    further: Collection[str] = ()
    work: Collection[Definition] = ()
    made_with: Collection[Definition] = ()

    @property
    def name(self) -> str:
        """The name of its function, class or module."""
        return self.owner.name or self.owner.module.rpartition(".")[2]


@dataclass(frozen=True)
class _Declaration:
    """A call that declares a result: of ``Stage``, or of the cache."""

    owner: Definition
    function: ast.AST
    call: ast.Call

    def list_arguments(self, name: str) -> list[ast.expr]:
        """Return the argument of a name; none if it is missing."""
        return [word.value for word in self.call.keywords if word.arg == name]


@dataclass(frozen=True)
class _Function:
    """A function of a stage, such as its job; it may be inside of another one."""

    owner: Definition
    node: ast.AST


def list_kept_results(package: Package) -> list[KeptResult]:
    """Return the kept results of a package."""
    classes = _list_versioned_classes(package)
    stops = {result.owner for result in classes}
    results = []
    stages = list(_list_declarations(package, "Stage"))
    # The arguments of a job are results of other stages, or are in the key.
    beside = {stage.owner for stage in stages}
    for stage in stages:
        beside.update(part.owner for part in _find_functions(package, stage, "inputs"))
    # A function that hashes values makes a key; one that asks for stages gives them to a graph.
    asked = {HASH, *(stage.owner for stage in stages)}
    beside.update(
        definition
        for definition, references in package.references.items()
        if references.plain & asked
    )
    for stage in stages:
        results.extend(_describe_stage(package, stage, stops, beside))
    for declaration in _list_declarations(package, "get"):
        results.extend(_describe_cached(package, declaration, stops))
    made_with = set().union(*(result.made_with for result in results))
    for result in classes:
        roots = _list_entries(package, made_with, result.owner)
        parts = reach(package.typed_calls, roots, stops - {result.owner})
        results.append(replace(result, made_with=parts))
    places = {result.place for result in results}
    results += [result for result in _list_module_versions(package) if result.place not in places]
    return _join_places(results)


def _join_places(results: Sequence[KeptResult]) -> list[KeptResult]:
    """Return one result for each version, without those that nothing makes."""
    by_place = dict[str, KeptResult]()
    for result in results:
        same = by_place.setdefault(result.place, result)
        by_place[result.place] = replace(
            same,
            further=sorted({*same.further, *result.further}),
            work={*same.work, *result.work},
            made_with={*same.made_with, *result.made_with},
        )
    return [result for result in by_place.values() if result.made_with]


def _list_versioned_classes(package: Package) -> list[KeptResult]:
    """Return the classes that have a version, without what makes their results."""
    results = []
    for owner, node in package.classes.items():
        source = package.modules[owner.module]
        if "version = " not in source.text:
            continue
        for part in ast.walk(node):
            if not isinstance(part, ast.Assign):
                continue
            target = ast.unparse(part.targets[0])
            if target == "self.version" or (target == "version" and part in node.body):
                version = f'version "{ast.unparse(part.value).strip(QUOTES)}"'
                results.append(KeptResult(owner, version, source.place(part.lineno)))
    return results


def _list_entries(
    package: Package, made_with: Collection[Definition], owner: Definition
) -> set[Definition]:
    """Return a class, or those of its methods, that kept results are made with."""
    entries = set[Definition]()
    for definition in made_with:
        for target in package.typed_calls.get(definition, ()):
            if target.owner == owner:
                entries.add(target)
    return entries


def _list_declarations(package: Package, callee: str) -> Iterator[_Declaration]:
    """Yield the calls of a function, each with the definition that it is in."""
    for module, source in package.modules.items():
        if f"{callee}(" not in source.text:
            continue
        for name, nodes in package.definitions(module).items():
            for node in nodes:
                # The methods of a class are definitions, too.
                if isinstance(node, ast.ClassDef):
                    continue
                for part in ast.walk(node):
                    if isinstance(part, ast.Call) and _name_of(part.func) == callee:
                        yield _Declaration(Definition(module, name), node, part)


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _describe_stage(
    package: Package,
    declaration: _Declaration,
    stops: Collection[Definition],
    beside: Collection[Definition],
) -> Iterator[KeptResult]:
    """Yield the result of a stage; those of a stage that takes its version and its work from a
    task or an integration, one for each of these.
    """
    further = set[str]()
    keyed = References.join([])
    for function in _find_functions(package, declaration, "inputs"):
        further |= _list_constants(package, function)
        read = package.list_references(function.owner.module, function.node)
        keyed = References.join([keyed, read])
    (version,) = declaration.list_arguments("version")
    for result in _list_versions(package, declaration, version):
        within = result.owner if result.owner != declaration.owner else None
        work = set[Definition]()
        made_with = set[Definition]()
        for function in _find_functions(package, declaration, "job"):
            run = _find_work(package, declaration, function, within)
            work |= run
            made_with |= reach(package.typed_calls, run, stops)
            # What is in the key, too, needs no version.
            arguments = _list_arguments(package, declaration, function, keyed) - run - beside
            made_with |= reach(package.calls, arguments, beside)
        if work:
            others = further - {result.version}
            yield replace(result, further=sorted(others), work=work, made_with=made_with)


def _list_versions(
    package: Package, declaration: _Declaration, node: ast.expr
) -> Iterator[KeptResult]:
    """Yield a stage with its version; each class or module whose attribute the version is."""
    owner = declaration.owner
    for part in ast.walk(node):
        for definition in package.resolve(owner.module, part):
            if definition.name:
                yield KeptResult(owner, definition.name, package.place(definition))
                return
    if isinstance(node, ast.Constant):
        place = package.modules[owner.module].place(node.lineno)
        yield KeptResult(owner, f'version "{node.value!s}"', place)
    elif isinstance(node, ast.Attribute) and node.attr == "version":
        for result in _list_versioned_classes(package):
            if result.owner.module.startswith(LOOKED_UP):
                yield result
    elif isinstance(node, ast.Attribute):
        for module in package.modules:
            constant = Definition(module, node.attr)
            if module.startswith(LOOKED_UP) and constant in package.references:
                yield KeptResult(Definition(module), node.attr, package.place(constant))


def _find_functions(
    package: Package, declaration: _Declaration, argument: str
) -> Iterator[_Function]:
    """Yield the functions that an argument of a stage names: more than one if it is a method."""
    owner = declaration.owner
    for node in declaration.list_arguments(argument):
        if isinstance(node, ast.Name):
            for part in ast.walk(declaration.function):
                if isinstance(part, FUNCTIONS) and part.name == node.id:
                    yield _Function(owner, part)
        elif isinstance(node, ast.Attribute):
            for name, nodes in package.definitions(owner.module).items():
                if name.partition(".")[2] == node.attr:
                    yield from (_Function(Definition(owner.module, name), part) for part in nodes)
        else:
            yield _Function(owner, node)


def _find_work(
    package: Package, declaration: _Declaration, job: _Function, within: Definition | None
) -> set[Definition]:
    """Return the functions that a child runs for a job; those of one task or integration if it is
    given.
    """
    work = set[Definition]()
    for node in _list_partials(job.node):
        definitions = package.resolve(job.owner.module, node)
        if definitions:
            work.update(definitions)
        elif isinstance(node, ast.Attribute):
            work.update(_find_by_name(package, node.attr, within))
        elif isinstance(node, ast.Name):
            work.update(_list_given(package, declaration.owner))
    if _takes_function(package, declaration, job):
        work.update(_list_given(package, declaration.owner))
    return work


def _list_arguments(
    package: Package, declaration: _Declaration, job: _Function, keyed: References
) -> set[Definition]:
    """Return what gives a job its arguments, except what is ``keyed``."""
    module = job.owner.module
    references = package.list_references(module, job.node)
    owner = job.owner.name.partition(".")[0]
    siblings = {Definition(module, f"{owner}.{name}") for name in references.siblings}
    keyed_siblings = {Definition(module, f"{owner}.{name}") for name in keyed.siblings}
    types = package.list_references(module, declaration.function).types
    work = {part.attr for part in _list_partials(job.node) if isinstance(part, ast.Attribute)}
    attributes = references.attributes - work - keyed.attributes
    called = set(package.list_methods_called(types, attributes))
    return (references.plain - keyed.plain) | (siblings - keyed_siblings) | called


def _list_partials(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a job runs: the functions of its ``partial``, or what makes one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and _name_of(part.func) == "partial":
            yield part.args[0]
        value = part.value if isinstance(part, ast.Return) else None
        if isinstance(value, ast.Call) and _name_of(value.func) != "partial":
            yield value.func


def _takes_function(package: Package, declaration: _Declaration, job: _Function) -> bool:
    """Return whether a job passes on a function that its stage was given."""
    names = {part.id for part in ast.walk(job.node) if isinstance(part, ast.Name)}
    for part in ast.walk(declaration.function):
        if isinstance(part, ast.arg) and part.arg in names and part.annotation is not None:
            for kind in package.resolve(declaration.owner.module, part.annotation):
                nodes = package.definitions(kind.module).get(kind.name, ())
                if any(
                    isinstance(node, ast.Assign) and "Callable" in ast.unparse(node)
                    for node in nodes
                ):
                    return True
    return False


def _find_by_name(
    package: Package, name: str, within: Definition | None = None
) -> list[Definition]:
    """Return what is given by a name in the rooms that are looked up: ``TaskFunctions(name=...)``.
    Else, or in one class or module of them, the function of this name, and the work that a method
    of this name returns.
    """
    owners = [within, *package.bases.get(within, ())] if within else []
    given = []
    named = []
    for module, source in package.modules.items():
        if not module.startswith(LOOKED_UP) or name not in source.text:
            continue
        for node in source.nodes:
            if isinstance(node, ast.keyword) and node.arg == name:
                given += package.resolve(module, node.value)
        for defined, nodes in package.definitions(module).items():
            definition = Definition(module, defined)
            is_wanted = not owners or definition.owner in owners or Definition(module) in owners
            if defined.rpartition(".")[2] != name or not is_wanted:
                continue
            if defined == name:
                named.append(definition)
            for part in (part for node in nodes for part in _list_partials(node)):
                named += package.resolve(module, part)
    return named if within else given or named


def _list_given(package: Package, callee: Definition) -> Iterator[Definition]:
    """Yield the functions that the callers of a stage's function give it: its work."""
    for caller, references in package.references.items():
        if callee not in references.plain or caller == callee:
            continue
        for node in package.definitions(caller.module)[caller.name]:
            for part in ast.walk(node):
                if isinstance(part, ast.Call) and callee in package.resolve(
                    caller.module, part.func
                ):
                    yield from _resolve_arguments(package, caller.module, node, part)


def _resolve_arguments(
    package: Package, module: str, function: ast.AST, call: ast.Call
) -> Iterator[Definition]:
    """Yield the functions among the arguments of a call, also those of a ``partial``."""
    variables = {}
    for part in ast.walk(function):
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            variables[part.targets[0].id] = part.value
    for argument in (*call.args, *(word.value for word in call.keywords)):
        value = argument
        if isinstance(value, ast.Name):
            value = variables.get(value.id, value)
        if isinstance(value, ast.Call) and _name_of(value.func) == "partial":
            value = value.args[0]
        definitions = package.resolve(module, value)
        if not definitions and isinstance(value, ast.Attribute):
            yield from _find_by_name(package, value.attr)
        for definition in definitions:
            nodes = package.definitions(definition.module).get(definition.name, ())
            if any(isinstance(node, FUNCTIONS) for node in nodes):
                yield definition


def _list_constants(package: Package, function: _Function) -> set[str]:
    """Return the names of the versions that the inputs of a stage contain."""
    module = function.owner.module
    names = set()
    seen = set[Definition]()
    waiting = list(package.list_references(module, function.node).plain)
    while waiting:
        definition = waiting.pop()
        if definition.name.endswith("VERSION"):
            names.add(definition.name)
        elif definition.module == module and definition not in seen:
            seen.add(definition)
            waiting.extend(package.references[definition].plain)
    return names


def _describe_cached(
    package: Package, declaration: _Declaration, stops: Collection[Definition]
) -> Iterator[KeptResult]:
    """Yield the result of ``ArtifactCache().get("name-1", inputs, make)``."""
    owner = declaration.owner
    call = declaration.call
    if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != CACHE:
        return
    if isinstance(call.args[0], ast.Constant):
        made_with = reach(package.calls, package.references[owner].plain, {*stops, CACHE_CLASS})
        place = package.modules[owner.module].place(call.lineno)
        yield KeptResult(owner, f'"{call.args[0].value!s}"', place, made_with={owner, *made_with})


def _list_module_versions(package: Package) -> Iterator[KeptResult]:
    """Yield the results of functions that read the ``VERSION`` of their module."""
    for definition, references in package.references.items():
        constant = Definition(definition.module, "VERSION")
        nodes = package.definitions(definition.module)[definition.name]
        if constant in references.plain and isinstance(nodes[0], FUNCTIONS):
            made_with = reach(package.calls, [definition])
            place = package.place(constant)
            yield KeptResult(definition, "VERSION", place, made_with=made_with)
