"""How much an extract or a ledger keeps and whether it is true: see docs/evaluation.md.

Without options everything is measured, and the tables of docs/evaluation.md are written again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluate", description=__doc__)
    parser.add_argument("--app", type=Path, default=REPOSITORY, help="the checkout whose engine is measured")
    parser.add_argument("--ours", action="store_true", help="our own systems alone; no page is written")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    parser.add_argument("--quick", action="store_true", help="some numbers of the extract, in a minute")
    parser.add_argument("--held-out", action="store_true", help="with --quick: of what is held out from tuning")
    parser.add_argument("--show", metavar="KIND", help="with --quick: what was lost or misleads, of a kind or 'all'")
    options = parser.parse_args()
    if options.show and options.held_out:
        parser.error("What is held out is never shown: it would be tuned on.")
    # Before the first import of the app.
    sys.path[:0] = [str(options.app.resolve()), str(REPOSITORY)]
    from benchmarks.evaluate import full, quick

    if options.quick or options.show:
        return quick.main(held_out=options.held_out, show=options.show)
    return full.main(app=options.app, only_ours=options.ours, output=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
