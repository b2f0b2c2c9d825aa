"""Mutate many small text files; the kernels and the slow reference parser must agree on every one.

    python tools/fuzz_text.py --files 12000

The mutations are those of tests/test_data_text_fuzz.py: flipped bytes, truncation, huge numbers, binary noise, wrong
headers, swapped and doubled parts. A disagreement ends the run with the file's content; a hang with a traceback.
"""

import argparse
import faulthandler
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from test_data_text_fuzz import FORMS, run_mutations

FILES_PER_SEED = 1000
SECONDS_PER_SEED = 300


def main() -> None:
    """Run the mutations and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=12_000, help="number of mutated files of each format [12000]")
    parser.add_argument("--seed", type=int, default=1000, help="first seed; every thousand files take the next")
    options = parser.parse_args()
    for kind in ("xmc", *FORMS):
        began, n_refused, n_done = time.monotonic(), 0, 0
        while n_done < options.files:
            faulthandler.dump_traceback_later(SECONDS_PER_SEED, exit=True)
            n_files = min(FILES_PER_SEED, options.files - n_done)
            n_refused += run_mutations(options.seed + n_done // FILES_PER_SEED, n_files, kind)
            n_done += n_files
        faulthandler.cancel_dump_traceback_later()
        print(
            f"{kind}: {n_done:,} mutated files, no crash, no hang, no disagreement: {n_refused:,} refused by both in "
            f"the same words, {n_done - n_refused:,} read by both to the same bits ({time.monotonic() - began:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
