"""Kill training again and again, damage every kind of file in hundreds of places, and see that nothing goes wrong.

    python tools/faults.py --kills 50 --damages 200 --output tools/bench/results/faults.md

Kills are SIGKILL of one rank, of mpirun or of everything, at random moments and while the model is being written; the
run is resumed with another number of ranks, until the model is there and compared with that of an uninterrupted run.
Damages are flipped bits, truncations, zeroed and overwritten stretches, each followed by those who read the file:
they must refuse it with one message and status 2, solve the block again, or, where the bytes do not matter, do what
they do with the file as it was. Status 1 when anything was lost, wrong, crashed or left behind.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fault_damages import TARGETS, damage_all
from fault_kills import KillCampaign

KILLS = ("kills survived", "one rank killed", "mpirun killed", "all killed", "killed while storing")
KILLED = ("blocks damaged in between", "models finished")
BAD = ("bytes lost", "models different", "runs failed", "processes left behind")
OUTCOMES = ("refused", "solved again", "identical", "wrong", "crashed")
BAD_OUTCOMES = ("wrong", "crashed")


def main() -> int:
    """Run the campaigns and tell what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, metavar="N")
    parser.add_argument("--damages", type=int, default=200, metavar="N", help="of every kind of file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the summary to FILE (Markdown)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proxml-faults-") as folder:
        damages = damage_all(Path(folder), arguments.damages, arguments.seed)
        kills = kill_often(Path(folder), arguments.kills, arguments.seed)
    text = summary(f"python tools/faults.py {' '.join(words(arguments))}", kills, damages)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text)
    bad = sum(kills[name] for name in BAD) + sum(counts[name] for counts in damages.values() for name in BAD_OUTCOMES)
    return 1 if bad else 0


def words(arguments: argparse.Namespace) -> Sequence[str]:
    """Return the options that make the same campaign."""
    return [f"--{name} {getattr(arguments, name)}" for name in ("kills", "damages", "seed")]


def kill_often(folder: Path, n_kills: int, seed: int) -> Counter[str]:
    """Kill runs so many times, then let the last one come through."""
    campaign = KillCampaign(folder, random.Random(seed))
    while campaign.counts["kills survived"] < n_kills:
        campaign.train_once()
    campaign.finish()
    return campaign.counts


def summary(command: str, kills: Counter[str], damages: dict[str, Counter[str]]) -> str:
    """Return what was done, and what came of it."""
    lines = ["# Faults", "", f"    {command}", "", "| kills | |", "|---|---|"]
    lines += [f"| {name} | {kills[name]} |" for name in (*KILLS, *KILLED, *BAD)]
    lines += ["", f"| damaged | tried | {' | '.join(OUTCOMES)} |", "|---|" + "---|" * (len(OUTCOMES) + 1)]
    for name, counts in damages.items():
        cells = (counts.total(), *(counts[outcome] for outcome in OUTCOMES))
        lines.append(f"| {TARGETS[name].description} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
