"""Robustness on a page, models side by side, and as a picture."""

from pathlib import Path
from typing import Any

from proxml_mpi.analysis.robustness import UNCHANGED
from proxml_mpi.analysis.robustness_words import CHANGES, model_names
from proxml_mpi.analysis.vocabulary import KINDS
from proxml_mpi.analysis.words import aligned
from proxml_mpi.data.figure import drawing


def page(facts: dict[str, Any]) -> str:
    """Return the facts for people, models side by side."""
    return "\n".join(
        [
            *_models_page(facts),
            "",
            *_bins_page(facts),
            "",
            "worst case when every feature may move by epsilon: Hamming loss %, positives found %, wrong labels an "
            "instance, mean margin of positives",
            *_budgets_page(facts),
            "",
            "share of the vocabulary dropped or replaced in the test data: " + ", ".join(_shown(facts)),
            *_curves_page(facts),
            *_overlap_page(facts),
            *_theorem_page(facts),
            "",
            facts["findings"],
        ]
    )


def _shown(facts: dict[str, Any]) -> list[str]:
    ks = sorted({facts["k"][0], facts["k"][-1]})
    return [f"{metric}@{k}" for metric in ("P", "PSP") for k in ks]


def _models_page(facts: dict[str, Any]) -> list[str]:
    ks = facts["k"]
    head = ("model", "lambda", "weights", "a label", "MB", *(f"P@{k}" for k in ks), *(f"PSP@{k}" for k in ks))
    rows = []
    for name, model in zip(model_names(facts), facts["models"], strict=True):
        metrics = model["curves"][0]["metrics"]
        exponent = f" n^{model['lambda_exponent']:g}" if model["lambda_exponent"] else ""
        ridge = f", ridge {model['ridge']:g}" if model["ridge"] else ""
        numbers = (f"{metrics[f'{metric}@{k}']:.2f}" for metric in ("P", "PSP") for k in ks)
        size = (f"{model['n_weights']:,}", f"{model['weights_per_label']:.1f}", f"{model['model_bytes'] / 1e6:.1f}")
        rows.append((name, f"{model['lambda']:g}{exponent}{ridge}", *size, *numbers))
    paths = [f"model {name}: {m['model']}" for name, m in zip(model_names(facts), facts["models"], strict=True)]
    return [f"{facts['n_instances']:,} instances of {facts['test']}", *paths, "", *aligned(head, rows)]


def _bins_page(facts: dict[str, Any]) -> list[str]:
    k = facts["k"][-1]
    columns = [(f"P@{k}", "P"), (f"PSP@{k}", "PSP"), (f"recall@{k}", "recall"), (f"coverage@{k}", "coverage")]
    head = ("positives", "labels", *(f"{t} {name}" for t, _ in columns for name in model_names(facts)))
    rows = []
    for bin_name, values in facts["models"][0]["curves"][0]["by_frequency"].items():
        if values["n_labels"] and values["n_instances"]:
            of_models = [model["curves"][0]["by_frequency"][bin_name] for model in facts["models"]]
            numbers = (f"{of_model[f'{metric}@{k}']:.2f}" for _, metric in columns for of_model in of_models)
            rows.append((bin_name, f"{int(values['n_labels']):,}", *numbers))
    return aligned(head, rows)


def _budgets_page(facts: dict[str, Any]) -> list[str]:
    titles = ("Hamming", "found", "wrong", "margin")
    names = ("hamming_loss", "found", "false_per_instance", "margin_of_positives")
    head = ("epsilon", *(f"{title} {model}" for title in titles for model in model_names(facts)))
    rows = []
    for place, first in enumerate(facts["models"][0]["budgets"]):
        worst = [model["budgets"][place] for model in facts["models"]]
        rows.append((f"{first['budget']:g}", *(f"{of_model[name]:,.3f}" for name in names for of_model in worst)))
    return aligned(head, rows)


def _curves_page(facts: dict[str, Any]) -> list[str]:
    head = ("change", "share", *(f"{metric} {model}" for metric in _shown(facts) for model in model_names(facts)))
    rows = []
    for place, curve in enumerate(facts["models"][0]["curves"]):
        metrics = [model["curves"][place]["metrics"] for model in facts["models"]]
        numbers = (f"{of_model[name]:.2f}" for name in _shown(facts) for of_model in metrics)
        rows.append((CHANGES.get(curve["kind"], "none"), f"{curve['fraction']:g}", *numbers))
    return aligned(head, rows)


def _overlap_page(facts: dict[str, Any]) -> list[str]:
    if facts["overlap"] is None:
        return []
    head = ("positives", "labels", "pairs", "features known", "vocabulary known")
    rows = [
        (
            name,
            f"{values['n_labels']:,}",
            f"{values['n_pairs']:,}",
            f"{values['share_of_features']:.1%}",
            f"{values['share_of_vocabulary']:.1%}",
        )
        for name, values in facts["overlap"].items()
    ]
    title = "features of a label's test positives that its training positives have, by training positives"
    return ["", title, *aligned(head, rows)]


def _theorem_page(facts: dict[str, Any]) -> list[str]:
    theorem = facts["theorem"]
    if theorem is None:
        return []
    low, high = theorem["budget"]
    return [
        "",
        f"theorem: worst hinge loss = hinge loss + budget |w|_1, on {theorem['n_labels']} labels, budget = lambda "
        f"({low:g}" + (f" to {high:g})" if high > low else ")"),
        f"largest relative difference {theorem['largest_difference_by_linear_programs']:.1e} by linear programs on "
        f"the worst few instances, {theorem['largest_difference_by_moving_one_instance']:.1e} by moving one of all",
        f"{theorem['n_separable']} labels have all instances beyond their margins, where the theorem says nothing",
    ]


def draw(path: Path, facts: dict[str, Any]) -> None:
    """Draw the curves of all models into a file, whose name tells the kind of picture."""
    with drawing(path, 13, 8) as figure:
        axes = figure.subplots(2, 3).flat
        for number, (name, model) in enumerate(zip(model_names(facts), facts["models"], strict=True)):
            _draw_budgets(axes[:3], name, model["budgets"])
            for one, kind in zip(axes[3:5], KINDS, strict=True):
                _draw_change(one, name, kind, model["curves"], facts["k"][0], f"C{number}")
        if facts["overlap"]:
            shares = [100 * values["share_of_features"] for values in facts["overlap"].values()]
            axes[5].bar(list(facts["overlap"]), shares)
            axes[5].set(xlabel="training positives of the label", ylabel="% of a test positive's features known")
        else:
            axes[5].set_axis_off()
        for one in axes[:5]:
            one.legend()
            one.grid(visible=True, alpha=0.3)
        for one in axes[3:5]:
            one.set_ylim(bottom=0)


def _draw_budgets(axes: Any, name: str, budgets: list[dict[str, Any]]) -> None:
    titles = {
        "hamming_loss": "worst-case Hamming loss, %",
        "found": "positives found in the worst case, %",
        "margin_of_positives": "mean worst-case margin of positives",
    }
    budgets = sorted(budgets, key=lambda worst: float(worst["budget"]))
    smallest = min((worst["budget"] for worst in budgets if worst["budget"] > 0), default=1.0)
    for one, (quantity, title) in zip(axes, titles.items(), strict=True):
        one.plot([worst["budget"] for worst in budgets], [worst[quantity] for worst in budgets], marker=".", label=name)
        one.set_xscale("symlog", linthresh=smallest)
        one.set(xlabel="epsilon: every feature may move so far", ylabel=title)
    axes[0].set_yscale("log")


def _draw_change(axes: Any, name: str, kind: str, curves: list[dict[str, Any]], k: int, color: str) -> None:
    curves = [curve for curve in curves if curve["kind"] in (UNCHANGED, kind)]
    fractions = [curve["fraction"] for curve in curves]
    for metric, style in ((f"P@{k}", "-"), (f"PSP@{k}", "--")):
        values = [curve["metrics"][metric] for curve in curves]
        axes.plot(fractions, values, style, color=color, marker=".", label=f"{name} {metric}")
    axes.set(xlabel=f"share of the vocabulary {CHANGES[kind]}", ylabel="%")
