"""Lines per package, and a failure for a file of the project that is longer than agreed."""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 320
PACKAGES = ("tdsim", "kernels", "backend_gpu")


def main() -> int:
    long = []
    for package in PACKAGES:
        files = sorted(Path(package).rglob("*.py"))
        counts = {file: len(file.read_text().splitlines()) for file in files}
        long += [(file, n) for file, n in counts.items() if n > LIMIT]
        sys.stdout.write(f"{package}: {len(files)} files, {sum(counts.values())} lines\n")
    for file, n in long:
        sys.stderr.write(f"{file} has {n} lines, more than {LIMIT}: split it\n")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
