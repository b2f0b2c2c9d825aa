"""What the numbers about robustness say, in a paragraph."""

from typing import Any

from proxml_mpi.analysis.vocabulary import KINDS

CHANGES = {"drop": "dropped", "replace": "replaced"}


def model_names(facts: dict[str, Any]) -> list[str]:
    """Return what the models are called in tables and sentences."""
    penalties = [model["penalty"].upper() for model in facts["models"]]
    if len(set(penalties)) == len(penalties):
        return penalties
    return [f"{penalty} {number}" for number, penalty in enumerate(penalties, start=1)]


def findings(facts: dict[str, Any]) -> str:
    """Say in a paragraph what the numbers say."""
    sentences = ["Findings:"]
    theorem = facts["theorem"]
    if theorem is not None:
        apart = max(theorem[f"largest_difference_by_{road}"] for road in ("linear_programs", "moving_one_instance"))
        holds = "holds to" if apart < 1e-6 else "fails, by"
        sentences.append(f"the theorem {holds} {apart:.1e} on {theorem['n_labels'] - theorem['n_separable']} labels.")
    for name, model in zip(model_names(facts), facts["models"], strict=True):
        sentences += _of_budgets(name, model)
        sentences += _of_curves(name, model, facts["k"][0])
    if len(facts["models"]) > 1:
        sentences += _of_two(facts)
    overlap = facts["overlap"]
    if overlap:
        rare, frequent = next(iter(overlap.items())), list(overlap.items())[-1]
        sentences.append(
            f"A test positive of a label with {rare[0]} training positives finds {rare[1]['share_of_features']:.1%} of "
            f"its features among theirs, of one with {frequent[0]} {frequent[1]['share_of_features']:.1%}."
        )
    return " ".join(sentences)


def _of_budgets(name: str, model: dict[str, Any]) -> list[str]:
    """Say at which budget half of the positives found are lost."""
    budgets = sorted(model["budgets"], key=lambda worst: float(worst["budget"]))
    if not budgets or not budgets[0]["found"] > 0:
        return []
    start = budgets[0]
    lost = next((worst for worst in budgets if worst["found"] < 0.5 * start["found"]), None)
    where = f"half of them are lost at {lost['budget']:g} at the latest" if lost else "half of them are never lost"
    return [f"Model {name} finds {start['found']:.1f} % of positives at epsilon {start['budget']:g}; {where}."]


def _of_curves(name: str, model: dict[str, Any], k: int) -> list[str]:
    """Say what the largest change of the vocabulary leaves of a metric, overall and for labels of few positives."""
    unchanged = model["curves"][0]
    parts = []
    for kind in KINDS:
        last = max((c for c in model["curves"] if c["kind"] == kind), key=lambda c: c["fraction"], default=None)
        if last is not None:
            before, after = (curve["metrics"][f"P@{k}"] for curve in (unchanged, last))
            ps_before, ps_after = (curve["metrics"][f"PSP@{k}"] for curve in (unchanged, last))
            parts.append(
                f"with {last['fraction']:.0%} of the vocabulary {CHANGES[kind]} P@{k} goes from {before:.1f} to "
                f"{after:.1f}, PSP@{k} from {ps_before:.1f} to {ps_after:.1f}"
            )
    return [f"Model {name}: {'; '.join(parts)}."] if parts else []


def _of_two(facts: dict[str, Any]) -> list[str]:
    """Compare the two models: metrics, size, the rare labels, and what changes leave of each."""
    one, two = facts["models"]
    first, second = model_names(facts)
    k = facts["k"][-1]
    metrics = [model["curves"][0]["metrics"] for model in (one, two)]
    ratio = two["n_weights"] / max(one["n_weights"], 1)
    text = (
        f"Model {first} against {second}: P@{k} {metrics[0][f'P@{k}']:.2f} and {metrics[1][f'P@{k}']:.2f}, PSP@{k} "
        f"{metrics[0][f'PSP@{k}']:.2f} and {metrics[1][f'PSP@{k}']:.2f}, the second with {ratio:.1f} times the weights."
    )
    bins = [model["curves"][0]["by_frequency"] for model in (one, two)]
    better = [
        f"{name} ({bins[0][name][f'PSP@{k}']:.1f}, {bins[1][name][f'PSP@{k}']:.1f})"
        for name in bins[0]
        if bins[0][name][f"PSP@{k}"] > bins[1][name][f"PSP@{k}"]
    ]
    where = f"for labels of {', '.join(better)} positives" if better else "in no bin"
    return [text, f"PSP@{k} of the first is the higher one {where}."]
