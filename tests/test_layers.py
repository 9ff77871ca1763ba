"""The layers depend on each other in one direction: sase → compiler → templates, and generated job → runtime."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sase.standalone import preamble

ROOT = Path(__file__).parent.parent

# For each folder: the parts of this project that it may import, and the packages that it may not.
LAYERS = {
    "compiler": ({"sase.compiler", "sase.templates", "sase.cache", "sase.__version__"}, {"pyspark", "py4j"}),
    "compiler/languages": ({"sase.compiler.languages", "sase.compiler.core", "sase.cache"}, {"jinja2"}),
    "compiler/core": ({"sase.compiler.core"}, {"lark", "jinja2"}),
    "compiler/plan": ({"sase.compiler.plan", "sase.compiler.core"}, {"lark", "jinja2"}),
    "compiler/emit": (
        {"sase.compiler.emit", "sase.compiler.plan", "sase.compiler.core", "sase.templates", "sase.cache"},
        {"lark"},
    ),
    "runtime": ({"sase.runtime", "sase.cache", "sase.__version__"}, {"lark", "jinja2", "sqlglot"}),
    "runtime/operator": (
        {
            "sase.runtime.kernels",
            "sase.runtime.operator",
            "sase.runtime.pattern",
            "sase.runtime.row_pattern",
            "sase.runtime.errors",
        },
        {"pyspark", "py4j"},
    ),
    "runtime/kernels": (
        {"sase.runtime.kernels", "sase.runtime.pattern", "sase.runtime.row_pattern"},
        {"pyspark", "py4j"},
    ),
    "templates": (set(), {"lark", "jinja2", "sqlglot", "pyspark", "py4j"}),
}


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def imported_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of all that is imported anywhere in `source`, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.ImportFrom():
                yield node.lineno, "sase.relative_import"  # would hide its layer: imports are absolute here


def violations(layer: str, source: str) -> list[tuple[int, str]]:
    allowed, forbidden = LAYERS[layer]
    return [
        (line, name)
        for line, name in imported_names(source)
        if within(name, forbidden) or (within(name, {"sase"}) and not within(name, allowed))
    ]


@pytest.mark.parametrize("layer", LAYERS)
def test_no_file_imports_against_the_layers(layer: str) -> None:
    files = sorted((ROOT / layer).rglob("*.py"))
    assert files
    found = {str(file.relative_to(ROOT)): violations(layer, file.read_text(encoding="utf-8")) for file in files}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("layer", "source", "name"),
    [
        ("compiler", "def f():\n    from pyspark.sql import functions", "pyspark.sql.functions"),
        ("compiler", "if True:\n    from sase import runtime", "sase.runtime"),
        ("compiler/plan", "\nfrom sase.compiler.languages.sase import parser", "sase.compiler.languages.sase.parser"),
        ("compiler/core", "\nfrom sase.compiler.plan.logical import Plan", "sase.compiler.plan.logical.Plan"),
        ("runtime", "\nimport sase.compiler.languages.sase.parser as p", "sase.compiler.languages.sase.parser"),
        ("runtime", "\nfrom . import ssc", "sase.relative_import"),
        ("templates", "\nimport jinja2", "jinja2"),
    ],
)
def test_the_scan_sees_every_form_of_import(layer: str, source: str, name: str) -> None:
    assert violations(layer, source) == [(2, name)]


def loaded_by(code: str) -> set[str]:
    """The modules in memory after a fresh interpreter has run `code`."""
    script = f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


WHOLE_COMPILER = """
import importlib, pkgutil, sase.compiler
for module in pkgutil.walk_packages(sase.compiler.__path__, "sase.compiler."):
    importlib.import_module(module.name)
"""


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import sase", {"lark", "jinja2", "sqlglot", "pyspark", "numba"}),
        ("import sase.runtime.ssc", {"lark", "jinja2", "sqlglot", "pyspark"}),
        (WHOLE_COMPILER, {"pyspark", "py4j", "sase.runtime"}),
    ],
    ids=["sase", "the operator of a worker", "compiler"],
)
def test_importing_loads_no_more_than_it_needs(code: str, absent: set[str]) -> None:
    assert {name for name in loaded_by(code) if within(name, absent)} == set()


@pytest.mark.parametrize("stream", [False, True])
def test_a_standalone_job_carries_all_that_its_runtime_imports(stream: bool) -> None:
    assigned = [node for node in ast.parse(preamble(stream)).body if isinstance(node, ast.Assign)]
    (runtime,) = (node.value for node in assigned if ast.unparse(node.targets[0]) == "RUNTIME")
    sources: dict[str, str] = ast.literal_eval(runtime)
    carried = {path.removesuffix(".py").replace("/", ".") for path in sources}
    for path, source in sources.items():
        ours = {name for _, name in imported_names(source) if within(name, {"sase.runtime", "sase.cache"})}
        assert {name for name in ours if not within(name, carried)} == set(), path


HEAVY = {"pyspark", "py4j", "pandas", "numpy", "pyarrow", "numba"}
ROWS = {"sase.compiler.core.rows", "sase.compiler.plan.rows", "sase.compiler.languages.sql.statement", "sase.statement"}
"""Row patterns, and SQL around them."""
EXAMPLE = "examples/shoplifters.sase --catalog examples/retail.toml"

# One process runs them all: what one has loaded stays, so nobody may need less than those before.
OF_SASE = {
    "--version": HEAVY | ROWS | {"sase.compiler.plan", "sqlglot", "lark", "jinja2"},
    "--help": HEAVY | ROWS | {"sase.compiler.plan", "sqlglot", "lark", "jinja2"},
    f"check {EXAMPLE}": HEAVY | ROWS | {"sase.compiler.plan", "jinja2"},
    f"explain {EXAMPLE}": HEAVY | ROWS | {"jinja2"},
    f"compile {EXAMPLE}": HEAVY | ROWS,
    f"compile {EXAMPLE} --stream --standalone": HEAVY | ROWS,
}
OF_SQL = {
    "run --help": HEAVY | {"lark", "jinja2"},
    "check examples/v_shapes.sql --dialect trino": HEAVY | {"jinja2"},
    "compile examples/v_shapes.sql --dialect trino": HEAVY,
}


@pytest.mark.parametrize("commands", [OF_SASE, OF_SQL], ids=["SASE", "SQL"])
def test_a_command_loads_no_more_than_it_needs(commands: dict[str, set[str]]) -> None:
    assert all(after <= before for before, after in pairwise(commands.values()))
    script = f"""
import contextlib, io, json, sys
from sase.cli import main
for command in {list(commands)}:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        assert main(command.split()) == 0
    assert said.getvalue() or command.startswith("check")
    print(json.dumps(list(sys.modules)))
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    for (command, absent), loaded in zip(commands.items(), answer.stdout.splitlines(), strict=True):
        assert {name for name in json.loads(loaded) if within(name, absent)} == set(), command
