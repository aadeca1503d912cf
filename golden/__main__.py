"""python -m golden generate|check|list [name …]: write the goldens, compare them with the definitions, or list them."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from golden.evaluate import Refused
from golden.operator import Operator
from golden.write import index, render, render_model

ROOT = Path(__file__).resolve().parent


def definitions(patterns: list[str]) -> list[tuple[str, Operator]]:
    """(family, operator) of every definition whose name or family matches one of the globs (all, without globs)."""
    found = []
    for path in sorted((ROOT / "ops").glob("*/*.py")):
        if path.stem.startswith("_"):
            continue
        module = importlib.import_module(f"golden.ops.{path.parent.name}.{path.stem}")
        operators = getattr(module, "operators", None) or [module.operator]
        found += [(path.parent.name, o) for o in operators]
    if patterns:
        found = [(f, o) for f, o in found if any(fnmatch.fnmatch(o.name, p) or f == p for p in patterns)]
    return found


def models(patterns: list[str]) -> list[str]:
    """Names of the models under golden/models that match."""
    names = [p.stem for p in sorted((ROOT / "models").glob("*.py")) if not p.stem.startswith("_")]
    return [n for n in names if not patterns or "models" in patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


def rendered(names: list[str]) -> Iterator[tuple[str, str, Callable[[], tuple[bytes, bytes, int]]]]:
    """(folder, name, what makes its files) of every chosen operator and model."""
    for family, operator in definitions(names):
        yield family, operator.name, lambda f=family, o=operator: render(o, f)
    for name in models(names):
        module = importlib.import_module(f"golden.models.{name}")
        yield "models", name, lambda m=module: (*render_model(m.build), 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m golden", description=__doc__)
    parser.add_argument("verb", choices=["generate", "check", "list"])
    parser.add_argument("names", nargs="*", help="operator globs or families; default: all")
    arguments = parser.parse_args()
    chosen = list(rendered(arguments.names))
    if not chosen:
        print(f"golden: no operator matches {' '.join(arguments.names)}; see python -m golden list", file=sys.stderr)
        return 2
    if arguments.verb == "list":
        for family, name, _ in chosen:
            print(f"{family:20} {name}")
        return 0
    wrong = 0
    for done, (family, name, make) in enumerate(chosen, 1):
        folder = ROOT / "data" / family
        try:
            document, data, cases = make()
        except Refused as refusal:
            print(f"golden: refused: {refusal}", file=sys.stderr)
            wrong += 1
            continue
        files = {folder / f"{name}.json": document, folder / f"{name}.safetensors": data}
        if arguments.verb == "check":
            same = all(p.exists() and p.read_bytes() == b for p, b in files.items())
            wrong += not same
            print(f"[{done}/{len(chosen)}] {family}/{name}: {'same bytes' if same else 'DIFFERS: run generate'}", flush=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            for path, content in files.items():
                path.write_bytes(content)
            print(f"[{done}/{len(chosen)}] {family}/{name}: {cases} cases, {len(data)} bytes", flush=True)
    if arguments.verb == "generate":
        (ROOT / "index.json").write_bytes(index(ROOT))
    elif not arguments.names and (ROOT / "index.json").read_bytes() != index(ROOT):
        print("golden: index.json differs: run generate", file=sys.stderr)
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
