"""python -m golden generate|check|list [name …]: write the goldens, compare them with the definitions, or list them."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from golden.evaluate import Refused
from golden.models._observe import close
from golden.operator import Operator
from golden.write import index, render, render_model

ROOT = Path(__file__).resolve().parent


def definitions(patterns: list[str]) -> list[tuple[str, Operator]]:
    """(family, operator) of every definition whose name or family matches one of the globs (all, without globs)."""
    found: list[tuple[str, Operator]] = []
    places: dict[str, Path] = {}
    for path in sorted((ROOT / "ops").glob("*/*.py")):
        if path.stem.startswith("_"):
            continue
        module = importlib.import_module(f"golden.ops.{path.parent.name}.{path.stem}")
        operators = getattr(module, "operators", None) or [module.operator]
        for operator in operators:
            if operator.name in places:
                raise Refused(f"{operator.name} is defined in {places[operator.name]} and in {path.relative_to(ROOT)}")
            places[operator.name] = path.relative_to(ROOT)
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


def unchanged(family: str, name: str, old: tuple[bytes, bytes], make: Callable[[], tuple[bytes, bytes, int]], named: bool) -> bool:
    """Are these files what the definition gives? Byte for byte, but for models that are observed in float64. What takes minutes is done in part
    unless it was asked for by name."""
    module = importlib.import_module(f"golden.models.{name}") if family == "models" else None
    if module is not None and hasattr(module, "partly") and not named:
        return module.partly(old)
    document, data, _ = make()
    return agree(family, old, (document, data))


def agree(family: str, old: tuple[bytes, bytes], new: tuple[bytes, bytes]) -> bool:
    """Byte for byte, but for models that are observed in float64: another order of NumPy's sums is no other golden."""
    return old == new or (family == "models" and b'"kind": "observed"' in old[0] and close(old, new))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m golden", description=__doc__)
    parser.add_argument("verb", choices=["generate", "check", "list"])
    parser.add_argument("names", nargs="*", help="operator globs or families; default: all")
    arguments = parser.parse_args()
    try:
        chosen = list(rendered(arguments.names))
    except Refused as refusal:
        print(f"golden: refused: {refusal}", file=sys.stderr)
        return 1
    if not chosen:
        print(f"golden: no operator matches {' '.join(arguments.names)}; see python -m golden list", file=sys.stderr)
        return 2
    if arguments.verb == "list":
        try:
            for family, name, _ in chosen:
                print(f"{family:20} {name}")
            sys.stdout.flush()
        except BrokenPipeError:  # `| head` has read enough; the interpreter's last flush must not complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    wrong = 0
    for done, (family, name, make) in enumerate(chosen, 1):
        folder = ROOT / "data" / family
        paths = [folder / f"{name}.{ending}" for ending in ("json", "safetensors")]
        try:
            if arguments.verb == "check":
                same = all(p.exists() for p in paths) and unchanged(family, name, (paths[0].read_bytes(), paths[1].read_bytes()), make, bool(arguments.names))
                wrong += not same
                print(f"[{done}/{len(chosen)}] {family}/{name}: {'unchanged' if same else 'DIFFERS: run generate'}", flush=True)
                continue
            document, data, cases = make()
        except Refused as refusal:
            print(f"golden: refused: {refusal}", file=sys.stderr)
            wrong += 1
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if not (all(p.exists() for p in paths) and agree(family, (paths[0].read_bytes(), paths[1].read_bytes()), (document, data))):
            for path, content in zip(paths, (document, data), strict=True):
                path.write_bytes(content)
        print(f"[{done}/{len(chosen)}] {family}/{name}: {cases} cases, {len(data)} bytes", flush=True)
    if not arguments.names:  # what a definition that is gone has left
        wanted = {(family, name) for family, name, _ in chosen}
        for path in sorted((ROOT / "data").glob("*/*.json")):
            if (path.parent.name, path.stem) in wanted:
                continue
            if arguments.verb == "generate":
                path.unlink()
                path.with_suffix(".safetensors").unlink(missing_ok=True)
            else:
                print(f"golden: {path.relative_to(ROOT)} has no definition: run generate", file=sys.stderr)
                wrong += 1
    if arguments.verb == "generate":
        (ROOT / "index.json").write_bytes(index(ROOT))
    elif not arguments.names and (ROOT / "index.json").read_bytes() != index(ROOT):
        print("golden: index.json differs: run generate", file=sys.stderr)
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
