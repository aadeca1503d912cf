"""One screen from the records of a run: suites by status. Usage: summary.py RESULTS"""

import json
import sys
from collections import Counter
from pathlib import Path


def main() -> int:
    files = sorted(Path(sys.argv[1]).glob("*.jsonl"))
    if not files:
        print(f"assay: no records in {sys.argv[1]}; was a suite run?", file=sys.stderr)
        return 2
    for path in files:
        counts = Counter(json.loads(line)["status"] for line in path.read_text().splitlines())
        print(f"{path.stem:28} " + "  ".join(f"{n} {s}" for s, n in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
