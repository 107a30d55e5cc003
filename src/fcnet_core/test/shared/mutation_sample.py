"""Draws single-point mutations of the code and counts which the tests catch, to compare two states of the suite.

    . env.sh && python src/fcnet_core/test/shared/mutation_sample.py 60 results.json [--seed 0] [--checkout FOLDER]

A mutation changes a sign, a limit (min and max, a bound), a comparison, an operator, a number or the order of two
arguments. The packages in SCOPE take turns; one change is drawn uniformly of a package's code that fast tests reach.
The tests of the package that import the module, closest first, run until one fails; tests that take longer than LIMIT
have caught the mutation. Results are written after each mutation, and the same command line continues. The checkout
must have no changes in src/: the file is replaced while its tests run. Start this in the environment of the checkout.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SCOPE = {  # package: its modules that are mutated
    "fcnet_core": r"(control|legs|observation)/.*|observation|policy|model_file",
    "fcnet_replay": r".*",
    "quadruped_sim": r"(evaluation|physics)/.*",
    "unitree_lowlevel": r".*",
    "fcnet_ros": (
        r"messages|parameters|health|hardware_loop|targets|gains|serialized|recorder_gate|program|topics|state\w*"
    ),
    "fcnet_controller": r"control_core|control_loop|watchdogs",
}
# Tests that start programs, train or draw: too slow here, in both states.
SLOW = re.compile(
    r"wheels|notebooks|render|teacher|cluster|_verb|program|process|page|launch|learning/|node|setup|docum"
)
LIMIT = 900.0  # [s]
SWAPS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
SWAPS |= {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
FLIPS = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the mutated forms of one expression."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and len(new.ops) == 1:
        for table in (SWAPS, FLIPS):
            if operator := table.get(type(node.ops[0])):
                new.ops = [operator()]
                yield copy.deepcopy(new)
    elif isinstance(new, (ast.BinOp, ast.BoolOp)) and (operator := SWAPS.get(type(new.op))):
        new.op = operator()
        yield new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, (ast.USub, ast.Not)):
        yield new.operand
    elif isinstance(new, ast.Constant) and type(new.value) in (int, float):
        yield ast.Constant(new.value * 2 if abs(new.value) > 1 or isinstance(new.value, float) else new.value + 1)
    elif isinstance(new, ast.Name) and new.id in NAMES:
        yield ast.Name(NAMES[new.id])
    elif isinstance(new, ast.Attribute) and new.attr in NAMES:
        new.attr = NAMES[new.attr]
        yield new
    elif isinstance(new, ast.Call) and len(new.args) > 1 and not _is_symmetric(new):
        new.args[:2] = new.args[1::-1]
        yield new


def _is_symmetric(call: ast.Call) -> bool:
    """Return whether another order of the arguments changes nothing, or cannot be made."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in {*NAMES, "hypot", "isclose", "allclose"} or any(isinstance(one, ast.Starred) for one in call.args)


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below `node` that run, without annotations and f-strings, whose places are not exact."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if (
                isinstance(child, ast.AST)
                and name not in ("annotation", "returns")
                and not isinstance(child, ast.JoinedStr)
            ):
                yield child
                yield from expressions(child)


def mutants(source: bytes) -> list[tuple[int, str, str, bytes]]:
    """Return every mutation of a file: its line, the text before and after, and the whole file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in expressions(ast.parse(source)):
        for new in changes(node):
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            before, after = source[first:last].decode(), ast.unparse(new)
            if ast.unparse(node) != after:  # the arguments of f(x, x) have no order
                found.append((node.lineno, before, after, source[:first] + after.encode() + source[last:]))
    return found


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, and the names that it imports from them, dotted."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def tests_of(folder: Path, module: Path) -> list[str]:
    """Return the tests of the package in `folder` that import the module, by way of others too, closest first."""

    def dotted(path: Path) -> str:
        return ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")

    code = {dotted(path): imports(path) for path in (folder / folder.name).rglob("*.py")}
    tests = {path: imports(path) for path in sorted((folder / "test").rglob("test_*.py"))}
    for path in tests:
        tests[path] |= {name for above in path.parents if (above / "conftest.py").exists() and folder in above.parents
                        for name in imports(above / "conftest.py")}  # fmt: skip
    found, level, seen = [], {dotted(module)}, set()
    while level:
        seen |= level
        found += [path for path, names in tests.items() if names & level and path not in found]
        level = {name for name, names in code.items() if names & level} - seen
    return [str(path) for path in found if not SLOW.search(str(path.relative_to(folder)))]


def verdict(root: Path, tests: list[str]) -> tuple[str, str]:
    """Return caught, timeout or survived, and the first test that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", *tests]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True)  # fmt: skip
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "timeout", ""
    failed = re.findall(r"(?m)^(?:FAILED|ERROR) (.*)", output)
    return ("survived", "") if process.returncode == 0 else ("caught", failed[0][:200] if failed else output[-200:])


def main() -> int:
    """Mutate, test, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkout", type=Path, default=Path())
    args = parser.parse_args()
    root = args.checkout.resolve()
    if subprocess.run(["git", "diff", "--quiet", "--", "src"], cwd=root, check=False).returncode:
        sys.exit(f"{root} has changes; commit or restore them first")
    points = {}
    for package, pattern in SCOPE.items():
        folder = root / "src" / package / package
        modules = [
            path for path in sorted(folder.rglob("*.py")) if re.fullmatch(pattern, str(path.relative_to(folder))[:-3])
        ]
        files = [path for path in modules if tests_of(folder.parent, path)]  # only what these tests can reach
        points[package] = [(path, index) for path in files for index in range(len(mutants(path.read_bytes())))]
    results = json.loads(args.results.read_text()) if args.results.exists() else []
    rng = random.Random(args.seed)
    for number in range(args.count):
        package = list(SCOPE)[number % len(SCOPE)]
        path, index = rng.choice(points[package])
        if number < len(results):
            continue
        source, started = path.read_bytes(), time.monotonic()
        line, before, after, mutated = mutants(source)[index]
        tests = tests_of(root / "src" / package, path)
        try:
            path.write_bytes(mutated)
            found, test = verdict(root, tests)
        finally:
            path.write_bytes(source)
        results.append({"file": str(path.relative_to(root)), "line": line, "before": before, "after": after,
                        "verdict": found, "test": test, "seconds": round(time.monotonic() - started)})  # fmt: skip
        args.results.write_text(json.dumps(results, indent=1))
        print(len(results), *list(results[-1].values())[:5], flush=True)
    caught = sum(result["verdict"] != "survived" for result in results)
    print(f"{caught} of {len(results)} caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
