"""The sections of the report that show the model at work: metrics, labels, instances."""

from collections.abc import Sequence

import numpy as np

from proxml_mpi.analysis import svg
from proxml_mpi.analysis.html import chip, escape, muted, percent, row, table
from proxml_mpi.analysis.report_facts import Subject, choose_labels, has_truth
from proxml_mpi.score.table import ROWS, scoring_words


def metrics_section(subject: Subject) -> str:
    """Return the metrics of the test data, of all labels and by frequency, and the coverages."""
    tested = subject.tested
    if tested is None:
        return muted("There are metrics when test data are given: proxml-analyze report MODEL TEST.")
    evaluation = tested.evaluation
    if not has_truth(tested):
        return muted(f"{evaluation.n_instances:,} instances, none of them with labels: there is nothing to measure.")
    metrics, bins, ks = evaluation.result(), evaluation.by_frequency(), evaluation.ks
    head = ("%", *(f"@{k}" for k in ks))
    content = (
        f"<p>{escape(subject.settings.test)}: {evaluation.n_instances:,} instances, {evaluation.n_unlabelled:,} "
        f"of them without labels (counted as zero); propensity A {tested.propensity.a:g} B {tested.propensity.b:g}, "
        f"plain ranking, {scoring_words(tested.damping, subject.settings.calibrate)}.</p>\n"
    )
    overall = table(head, [(name, *(percent(metrics[f"{name}@{k}"]) for k in ks)) for name in ROWS])
    k = ks[-1]
    names = ("P", "nDCG", "PSP", "PSnDCG", "recall", "coverage")
    shown = {name: values for name, values in bins.items() if values["n_instances"]}
    rows = [
        (
            escape(name),
            f"{values['n_labels']:,}",
            f"{values['n_instances']:,}",
            *(percent(values[f"{metric}@{k}"]) for metric in names),
        )
        for name, values in shown.items()
    ]
    by_frequency = table(("positives", "labels", "instances", *(f"{metric}@{k}" for metric in names)), rows)
    by_bin = {
        f"{metric}@{k}": {escape(name): round(values[f"{metric}@{k}"], 2) for name, values in shown.items()}
        for metric in ("recall", "PSP", "coverage")
    }
    content += row(overall, svg.bars(f"By training positives, top {k}, %", by_bin))
    content += f"<h3>By frequency of the labels in training</h3>\n{by_frequency}"
    content += "<h3>Coverage: labels that are predicted correctly for some instance</h3>\n"
    kinds = (
        ("labels covered", "covered", ",.0f"),
        ("% of the labels in the test truth", "coverage", ".2f"),
        ("% of the labels in the best list of some instance (the paper)", "coverage_of_best", ".2f"),
        ("% of all labels", "coverage_of_all", ".2f"),
    )
    rows = [(text, *(f"{metrics[f'{name}@{k}']:{form}}" for k in ks)) for text, name, form in kinds]
    return content + table(("", *(f"@{k}" for k in ks)), rows)


def labels_section(subject: Subject) -> str:
    """Return labels of every frequency bin with their largest weights."""
    block, names, top = subject.block, subject.names, subject.settings.top
    rows = []
    for labels in choose_labels(block, subject.settings.labels, subject.settings.seed):
        for label in labels.tolist():
            entries = slice(block.indptr[label], block.indptr[label + 1])
            features, weights = block.indices[entries], block.data[entries]
            order = np.argsort(-np.abs(weights), kind="stable")[:top]
            words = "".join(
                chip(_name(names.features, features[at]), f"{weights[at]:.3g}", is_minus=bool(weights[at] < 0))
                for at in order
            )
            rows.append(
                (
                    f"<bdi>{_name(names.labels, label)}</bdi>",
                    f'<div class="wide">{words or "none"}</div>',
                    f"{block.n_positives[label]:,}",
                    f"{block.lambda_[label]:.3g}",
                    f"{block.duality_gap[label] / max(int(block.n_positives[label]), 1):.0e}",
                    f"{len(features):,}",
                    f"{block.bias[label]:.2f}",
                )
            )
    if not rows:
        return muted("No label was solved.")
    head = ("label", "largest weights", "positives", "lambda", "gap / positives", "weights", "bias")
    return muted("Drawn at random from every frequency bin.") + table(head, rows, (0, 1))


def instances_section(subject: Subject) -> str:
    """Return test instances with what was predicted and what is true."""
    tested, names = subject.tested, subject.names
    if tested is None or not tested.examples:
        return muted("There are instances to show when test data are given: proxml-analyze report MODEL TEST.")
    rows = []
    for example in tested.examples:
        true = set(example.true.tolist())
        predicted = "".join(
            chip(_name(names.labels, label), f"{score:.2f}", is_hit=label in true)
            for label, score in zip(example.predicted.tolist(), example.scores, strict=True)
        )
        hits = true & set(example.predicted.tolist())
        truth = "".join(chip(_name(names.labels, label), "", is_hit=label in hits) for label in example.true.tolist())
        words = "".join(chip(_name(names.features, feature), "") for feature in example.features)
        wide = (f'<div class="wide">{content or "none"}</div>' for content in (predicted, truth, words))
        rows.append((f"{example.number:,}", *wide))
    head = ("instance", "predicted, best first, with scores", "true labels", "largest features")
    return muted("Drawn at random from the test data; ✓ predicted and true.") + table(head, rows, (1, 2, 3))


def _name(names: Sequence[str] | None, number: int) -> str:
    return escape(names[number] if names else number)
