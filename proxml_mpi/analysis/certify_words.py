"""What the comparison with LIBLINEAR says, in a paragraph."""

from itertools import pairwise
from typing import Any


def run_title(run: dict[str, Any]) -> str:
    """Return what one way to call LIBLINEAR is called."""
    return f"eps {run['eps']:g}, cap {run['max_iterations']:,}"


def findings(facts: dict[str, Any]) -> str:
    """Say in a paragraph what the numbers say."""
    n_labels, runs = facts["n_drawn"], facts["runs"]
    shares = "; ".join(f"{run['n_ours_lower'] / n_labels:.1%} at {run_title(run)}" for run in runs)
    sentences = [f"Findings: our objective is the lower one on {shares}."]
    n_theirs = max(run["n_theirs_lower"] for run in runs)
    if n_theirs:
        by = max(run["theirs_lower_by_at_most"] for run in runs)
        sentences.append(
            f"LIBLINEAR's is lower on {n_theirs / n_labels:.1%} at most, by no more than {by:.1e} x positives, "
            f"where our certificate leaves {facts['ours']['gap_per_positive']['largest']:.1e}."
        )
    else:
        sentences.append("LIBLINEAR's is lower on none.")
    sentences += [sentence for run in runs for sentence in _of_cap(run, n_labels)]
    sentences += _of_tightness(runs)
    whole, median = ([run[name] for run in runs] for name in ("seconds_ratio", "seconds_ratio_median"))
    sentences.append(
        f"LIBLINEAR took {min(whole):.1f} to {max(whole):.1f} times our processor time for all labels together, "
        f"{min(median):.0f} to {max(median):.0f} times in the median over labels."
    )
    if any(run["n_below_bound"] for run in runs):
        sentences.append("An objective lies below our bound of the optimum: that is a defect, please report it.")
    return " ".join(sentences)


def _of_cap(run: dict[str, Any], n_labels: int) -> list[str]:
    """Say what the limit of iterations does, and why, in one way to call LIBLINEAR."""
    if not run["n_capped"]:
        return [f"At {run_title(run)} every label met eps."]
    capped, others = run["above_at_least_of_capped"]["median"], run["above_at_least_of_others"]["median"]
    text = (
        f"At {run_title(run)} the cap ended {run['n_capped'] / n_labels:.1%} of the labels, at least {capped:.1e} x "
        "positives above the optimum in the median"
    )
    text += f" (the others {others:.1e})" if run["n_capped"] < n_labels else ""
    zeros, rest = run["violation_of_zeros_of_capped"]["median"], run["violation_of_others_of_capped"]["median"]
    n_zeros = run["violated_zeros_of_capped"]["median"]
    text += (
        f": there {n_zeros:,.0f} weights of 0 ought not to be 0 (largest violation {zeros:.2g} lambda, medians), "
        f"the other weights violate their conditions by {rest:.2g} lambda"
    )
    if zeros > 2 * rest:
        text += ", so that what was returned is about the optimum of a wrongly shrunk problem"
    if run["n_capped_without_return"]:
        share = run["n_capped_without_return"] / run["n_capped"]
        text += f"; on {share:.1%} of them no feature once shrunk was ever let back"
    return [text + "."]


def _of_tightness(runs: list[dict[str, Any]]) -> list[str]:
    """Say where a tighter eps made things worse under the same limit."""
    sentences = []
    for limit in dict.fromkeys(run["max_iterations"] for run in runs):
        own = [run for run in runs if run["max_iterations"] == limit]
        for loose, tight in pairwise(own):
            before, after = loose["above_at_least"]["mean"], tight["above_at_least"]["mean"]
            if after > before:
                sentences.append(
                    f"Under a cap of {limit:,}, eps {tight['eps']:g} is worse than {loose['eps']:g}: {after:.1e} x "
                    f"positives above the optimum in the mean rather than {before:.1e}."
                )
    return sentences
