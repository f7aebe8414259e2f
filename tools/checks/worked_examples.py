"""Type the examples of ``docs/extend*.md`` into a copy of the package, and try what they promise.

    python -m tools.checks.worked_examples        # ends with 1 if an example does not work

The code is that of the pages. This module knows where a reader puts each block: a place is named
by what stands there, so that most moves of code do not matter. ``tests/docs/test_extend.py`` runs
it.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PARTS = ("advisor", "catalogs", "device_profiles")
"""Folders of a working copy."""

BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SMALLEST = ("--candidates", "mobilenet_v1_0.25_224", "--compressions", "float32")
PLAN = ("plan", "--candidates", "mobilenet_v1_0.25_224", "--all", "--offline")
IMAGES_OF_A_CLASS = 12
TOY = Path("tests/tasks/toy/brightness.py")
PROFILE = """\
name: bench-phone
title: Phone on a test rig
cores: [{core: Cortex-A76, count: 4, max_mhz: 2400}]
connection: {rig: "rig.local:8000"}
"""


class Copy:
    """A copy of the package, into which examples are typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # With the compiled modules, which save each command two seconds.
        for part in PARTS:
            shutil.copytree(PROJECT / part, folder / part)

    def find_module(self, text: str) -> Path:
        """Return the module of the package in which a text stands; ValueError if it is not one."""
        modules = []
        for path in sorted(self.folder.glob("advisor/**/*.py")):
            if text in path.read_text("utf-8"):
                modules.append(path)
        if len(modules) != 1:
            raise ValueError(f"'{text}' stands in {len(modules)} modules, not in one")
        return modules[0]

    def add_field(self, name: str, code: str) -> None:
        """Add code after the last field of a class."""
        module = self.find_module(f"class {name}")
        for statement in ast.parse(module.read_text("utf-8")).body:
            if isinstance(statement, ast.ClassDef) and statement.name == name:
                fields = [entry for entry in statement.body if isinstance(entry, ast.AnnAssign)]
                insert_code(module, fields[-1].end_lineno or 0, code, 4)

    def add_before(self, module: Path, text: str, code: str) -> None:
        """Add code before the first line with a text, as far to the right as that line."""
        place = find_line(module, text)
        line = module.read_text("utf-8").split("\n")[place]
        insert_code(module, place, code, len(line) - len(line.lstrip()))

    def run(self, *arguments: str) -> str:
        """Return what a command of the copy prints; ValueError if it fails."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "NO_COLOR": "1"}
        command = [sys.executable, "-P", "-m", "advisor", *arguments]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode not in (0, 3):
            raise ValueError(f"advisor {' '.join(arguments)}: {ended.stderr[-2000:]}")
        return ended.stdout


def find_line(module: Path, text: str, after: int = 0) -> int:
    """Return the place of the first line from ``after`` on that has a text, counted from 0."""
    lines = module.read_text("utf-8").splitlines(keepends=True)
    for place in range(after, len(lines)):
        if text in lines[place]:
            return place
    raise ValueError(f"no line of {module.name} has '{text}'")


def insert_code(module: Path, place: int, code: str, indent: int) -> None:
    """Insert code before the line at a place."""
    lines = module.read_text("utf-8").split("\n")
    lines[place:place] = textwrap.indent(code, " " * indent).rstrip(" ").split("\n")
    module.write_text("\n".join(lines), "utf-8")


def append_code(module: Path, code: str) -> None:
    """Add code at the end of a module."""
    module.write_text(f"{module.read_text('utf-8')}\n\n{code}", "utf-8")


def replace_statement(module: Path, text: str, after: int, code: str, indent: int) -> None:
    """Replace the statement or argument whose first line, from ``after`` on, has a text."""
    place = find_line(module, text, after)
    ends = []
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.stmt | ast.keyword) and node.lineno == place + 1:
            ends.append(node.end_lineno or 0)
    lines = module.read_text("utf-8").split("\n")
    del lines[place : max(ends)]
    module.write_text("\n".join(lines), "utf-8")
    insert_code(module, place, code, indent)


def read_blocks(page: str, heading: str) -> list[str]:
    """Return the blocks of Python under a heading of a page, without their indentation."""
    text = (PROJECT / "docs" / page).read_text(encoding="utf-8")
    section = re.split(r"\n## ", text.partition(f"\n## {heading}\n")[2])[0]
    return [textwrap.dedent(code) for _, code in BLOCK.findall(section)]


def try_option(copy: Copy) -> str:
    """Add the option of the example; return what is wrong, or an empty text."""
    option, field, use = read_blocks("extend.md", "An option")
    copy.add_field("PlanOptions", option)
    copy.add_field("Execution", field)
    copy.add_before(copy.find_module("def when_answered"), "now = time.monotonic()", use)
    shown = copy.run("search", "--help-all")
    return "" if "--skip-label-check" in shown else "the help does not show the option"


def try_rule(copy: Copy) -> str:
    """Add the rule of the example; return what is wrong, or an empty text."""
    rule, entry = read_blocks("extend.md", "A rule that rejects")
    module = copy.find_module("def rules_of")
    append_code(module, rule)
    copy.add_before(module, "RejectionRule(RuleNeeds.PLAN", entry.rstrip() + ",")
    shown = copy.run("plan", "--budget", "3ms", "--device", "pixel-4", "--all", "--offline")
    return "" if "billion multiplications" in shown else "no card is rejected by the rule"


def try_compression(copy: Copy) -> str:
    """Add the compression recipe of the example; return what is wrong, or an empty text."""
    recipe, form = read_blocks("extend-stages.md", "A compression recipe")
    copy.add_before(
        copy.find_module("\nRECIPES: tuple[Recipe"), 'Edit("float32"', recipe.rstrip() + ","
    )
    copy.add_before(copy.find_module("\nFORMS: Mapping[str, Form]"), '"float16": Form(', form)
    shown = copy.run(*PLAN, "--compressions", "float32,rounded_6bit")
    return "" if "rounded_6bit" in shown else "the plan does not have the recipe"


def try_training(copy: Copy) -> str:
    """Add the training recipe of the example; return what is wrong, or an empty text."""
    recipe, name, finetuning = read_blocks("extend-stages.md", "A training recipe")
    table = copy.find_module("\nTRAININGS: Mapping")
    # Its place is before the next heavier one.
    heavier = find_line(table, "FINETUNE_CACHED,\n") - 1
    insert_code(table, heavier, f"{recipe.rstrip()},", 12)
    copy.add_before(copy.find_module("class StageName("), "FINETUNE_CACHED =", name)
    hyperparameters = copy.find_module("\nFINETUNING: Mapping[str, Finetuning]")
    first = find_line(hyperparameters, "FINETUNING: Mapping") + 1
    insert_code(hyperparameters, first, finetuning, 4)
    images = draw_images(copy.folder / "photos")
    shown = copy.run(*PLAN, "--data", str(images), "--training", "head,finetune_third")
    return "" if "finetune_third" in shown else "the plan does not have the recipe"


def try_stage(copy: Copy) -> str:
    """Add the stage of the example; return what is wrong, or an empty text."""
    blocks = read_blocks("extend-stages.md", "A stage")
    imports = [block for block in blocks if block.startswith("from ")]
    code = [block for block in blocks if block not in imports]
    name, job, stage, listed, evaluation, field, awaited, facts = code
    stages = copy.folder / "advisor/engine/_pipeline/stages"
    graph = copy.find_module("class VariantStages")
    copy.add_before(copy.find_module("class StageName("), "TIMING =", name)
    append_code(stages / "jobs.py", job)
    append_code(stages / "figures.py", stage)
    for imported in imports:
        module = graph if "stages.figures" in imported else stages / "figures.py"
        copy.add_before(module, "from advisor", imported)
    place = find_line(graph, "def evaluation(self)") - 1
    insert_code(graph, place, f"{listed}\n", 4)
    replace_statement(graph, "return (", find_line(graph, "def evaluation(self)"), evaluation, 8)
    copy.add_field("FileFacts", field)
    evaluator = copy.find_module("file_facts=replace(")
    argument = facts.replace(" = ", "=", 1).rstrip() + ","
    replace_statement(evaluator, "file_facts=replace(", 0, argument, 12)
    copy.add_before(evaluator, " Evaluation(\n", awaited)
    copy.run("search", *SMALLEST, "--budget", "50ms", "--threads", "1", "--offline")
    rows = (copy.folder / "runs/latest/evaluations.jsonl").read_text("utf-8")
    return "" if '"zero_weights"' in rows else "no evaluation has the share of weights"


def try_connection(copy: Copy) -> str:
    """Add the connection of the example; return what is wrong, or an empty text."""
    module, imported, way = read_blocks("extend-runtimes.md", "A device or a connection")
    ways = copy.find_module("\nWAYS: Mapping[str, Way]")
    (ways.parent / "rig.py").write_text(module, "utf-8")
    copy.add_before(ways, "from advisor", imported)
    copy.add_before(ways, '"ssh": Way(', way)
    profile = copy.folder / "given" / "bench-phone.yaml"
    profile.parent.mkdir()
    profile.write_text(PROFILE, "utf-8")
    shown = copy.run("devices", "add", str(profile), "--into", str(copy.folder))
    return "" if "bench-phone" in shown else "the profile of the connection is not read"


def try_task(copy: Copy) -> str:
    """Add the task of the example; return what is wrong, or an empty text."""
    text = (PROJECT / TOY).read_text("utf-8")
    module = copy.folder / "advisor/tasks/_brightness.py"
    built_in = text.replace("from advisor.tasks import", "from advisor.tasks._task import")
    module.write_text(built_in, "utf-8")
    tasks = copy.folder / "advisor/tasks/_all.py"
    copy.add_before(tasks, "from advisor", "from advisor.tasks._brightness import BRIGHTNESS")
    tasks.write_text(tasks.read_text("utf-8").replace("TASKS = (", "TASKS = (BRIGHTNESS, "))
    images = draw_images(copy.folder / "photos")
    shown = copy.run(*PLAN, "--task", "brightness", "--data", str(images))
    return "" if "Nothing was spent" in shown else "the task has no plan"


Example = Callable[[Copy], str]
"""Types an example into a copy; returns what is wrong, or an empty text."""

QUICK: tuple[Example, ...] = (try_option, try_connection, try_stage)
"""The examples of every test run: the others only make a plan, and run with the slow tests."""

EXAMPLES: tuple[Example, ...] = (
    try_option,
    try_rule,
    try_compression,
    try_training,
    try_stage,
    try_connection,
    try_task,
)


def draw_images(folder: Path) -> Path:
    """Draw a few images in two classes into a folder, and return it."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    for label in ("bottle", "can"):
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(IMAGES_OF_A_CLASS):
            pixels = random.integers(0, 256, (64, 64, 3), np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


def problems() -> Iterator[str]:
    """Yield one line for each example that does not work when it is typed."""
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                problem = example(Copy(Path(folder)))
            except (ValueError, StopIteration) as error:
                problem = str(error) or "the place that it names is gone"
        if problem:
            yield f"docs/extend*.md: {example.__name__.removeprefix('try_')}: {problem}"


def main() -> int:
    """Print the examples that do not work; return 1 if there is any, else 0."""
    found = list(problems())
    print("\n".join(found) or f"{len(EXAMPLES)} worked examples work")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
