"""Run the attacks: `python -m benchmarks.attack [NAME ...] [--seconds 600] [--seed 0] [--json]`."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import time

import benchmarks.attack as attacks


def _names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(attacks.__path__) if not m.name.startswith("_"))


def main() -> int:
    """Run the named attacks, or all; the exit status is 1 if anything broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=attacks.__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(_names())} (default: all)"
    )
    parser.add_argument("--seconds", type=float, default=600, help="for all of them together (default: 600)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    given = parser.parse_args()
    unknown = set(given.names) - set(_names())
    if unknown:
        parser.error(f"no attack is called {', '.join(sorted(unknown))}; there are {', '.join(_names())}")
    names = given.names or _names()
    rows = []
    if not given.json:
        print("| attack | tries | failures | seconds | figures |\n|---|---|---|---|---|", flush=True)
    for name in names:
        module = importlib.import_module(f"benchmarks.attack.{name}")
        print(f"{name}: {(module.__doc__ or '').splitlines()[0]}", file=sys.stderr, flush=True)
        began = time.monotonic()
        result = module.attack(given.seconds / len(names), given.seed)
        took = time.monotonic() - began
        rows.append({"attack": name, "seconds": round(took, 1), **vars(result)})
        if not given.json:
            figures = "; ".join(f"{key} {value}" for key, value in result.figures.items())
            print(f"| {name} | {result.tries:,} | {len(result.failures)} | {took:.0f} | {figures} |", flush=True)
            for line in result.failures[:10]:
                print(f"  {name}: {line}", file=sys.stderr)
    if given.json:
        print(json.dumps({"seed": given.seed, "attacks": rows}, indent=2))
    return int(any(row["failures"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
