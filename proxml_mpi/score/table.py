"""Metrics as a table for people."""

from collections.abc import Mapping, Sequence

ROWS = ("P", "nDCG", "PSP", "PSnDCG", "recall", "PSR", "coverage")


def metrics_table(metrics: Mapping[str, float], ks: Sequence[int]) -> str:
    """Return one row a metric and one column a k, in percent with two decimals."""
    lines = ["%         " + "".join(f"{'@' + str(k):>9}" for k in ks)]
    lines += [f"{row:<10}" + "".join(f"{metrics[f'{row}@{k}']:9.2f}" for k in ks) for row in ROWS]
    return "\n".join(lines)


def scoring_words(damping: float, is_calibrated: bool) -> str:
    """Say what of the instances was damped before they were scored, and whether scores were calibrated."""
    damped = f"features of fewer than {damping:g} training instances damped" if damping else "no damping"
    return f"{damped}, scores {'calibrated' if is_calibrated else 'as they are'}"


def interval_table(intervals: Mapping[str, Sequence[float]], ks: Sequence[int]) -> str:
    """Return the lower and upper bound of one metric a row and one k a column."""
    lines = ["%         " + "".join(f"{'@' + str(k):>16}" for k in ks)]
    for row in (row for row in ROWS if f"{row}@{ks[0]}" in intervals):
        bounds = (intervals[f"{row}@{k}"] for k in ks)
        lines.append(f"{row:<10}" + "".join(f"{low:9.2f}-{high:<6.2f}" for low, high in bounds))
    return "\n".join(lines)


def frequency_table(by_frequency: Mapping[str, Mapping[str, float]], k: int) -> str:
    """Return one row a frequency bin of labels, with its size and the metrics at one k."""
    names = ("PSP", "recall", "coverage")
    lines = ["positives    labels" + "".join(f"{f'{name}@{k}':>12}" for name in names)]
    lines += [
        f"{bin_name:<11}{int(values['n_labels']):>8,}" + "".join(f"{values[f'{name}@{k}']:12.2f}" for name in names)
        for bin_name, values in by_frequency.items()
        if values["n_labels"]
    ]
    return "\n".join(lines)
