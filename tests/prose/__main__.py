"""What the prose linter finds in the texts of the project: documents, comments, messages, names of tests.

    python -m tests.prose                     count findings by rule, and by document with its words and reading ease
    python -m tests.prose README.md pipeline  list the errors and warnings in these files and folders
    python -m tests.prose --all pipeline/cli  list the suggestions, too

The reading ease is that of Flesch: from 60 on a text is plain English, below 30 it is hard to read.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from tests.prose.linting import DOCUMENTS, KINDS, LEVELS, ROOT, Finding, lint, measures


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.prose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="a file or folder whose findings to list")
    parser.add_argument("--all", action="store_true", help="list suggestions, too")
    options = parser.parse_args()
    if options.paths:
        print_findings([str(path.resolve().relative_to(ROOT)) for path in options.paths], suggestions=options.all)
    else:
        found = {kind: lint(kind) for kind in KINDS}
        print_rules(found)
        print()
        print_documents(found["documents"])


def print_findings(paths: list[str], *, suggestions: bool) -> None:
    for kind in KINDS:
        for each in lint(kind, LEVELS[0] if suggestions else LEVELS[1]):
            if any(path in {".", each.path} or each.path.startswith(f"{path}/") for path in paths):
                print(each)


def print_rules(found: dict[str, list[Finding]]) -> None:
    counts = Counter((each.rule, kind) for kind in KINDS for each in found[kind])
    print(f"{'rule':16}", *(f"{kind:>9}" for kind in KINDS))
    for rule in sorted({rule for rule, _ in counts}):
        print(f"{rule:16}", *(f"{counts[rule, kind]:9,}" for kind in KINDS))


def print_documents(found: list[Finding]) -> None:
    counts = Counter((each.path, each.level) for each in found)
    print(f"{'document':48} {'words':>7} {'ease':>5}", *(f"{level + 's':>11}" for level in reversed(LEVELS)))
    for path in DOCUMENTS:
        name, measured = str(path.relative_to(ROOT)), measures(path)
        levels = (f"{counts[name, level]:11,}" for level in reversed(LEVELS))
        print(f"{name:48} {measured['words']:7,} {reading_ease(measured):5.0f}", *levels)


def reading_ease(measured: dict[str, int]) -> float:
    """Return the reading ease of Flesch (1948)."""
    words = max(measured["words"], 1)
    return 206.835 - 1.015 * words / max(measured["sentences"], 1) - 84.6 * measured["syllables"] / words


if __name__ == "__main__":
    main()
