"""What an evaluation has found: tables for people, JSON or CSV for programs."""

from collections.abc import Mapping
from typing import Any

from proxml_mpi import __version__
from proxml_mpi.errors import DataError
from proxml_mpi.output import show
from proxml_mpi.score.metrics import Evaluation
from proxml_mpi.score.propensity import Propensity
from proxml_mpi.score.table import frequency_table, interval_table, metrics_table, scoring_words
from proxml_mpi.settings.predict import PredictSettings
from proxml_mpi.store.metrics_file import write_metrics
from proxml_mpi.store.model_reader import ModelHeader


def report(
    settings: PredictSettings,
    header: ModelHeader,
    evaluation: Evaluation,
    propensity: Propensity,
    facts: Mapping[str, Any],
) -> None:
    """Print the metrics and write them where the settings say; without any true label there are none."""
    if evaluation.n_unlabelled == evaluation.n_instances:
        show(f"{evaluation.n_instances:,} instances, none of them with labels: there is nothing to measure")
        if settings.metrics is not None:
            raise DataError(settings.test, "found no labels, expected some for --metrics")
        return
    result = _result(settings, header, evaluation, propensity, facts)
    show(_page(result, evaluation.ks))
    if settings.metrics is not None:
        write_metrics(settings.metrics, result)


def _result(
    settings: PredictSettings,
    header: ModelHeader,
    evaluation: Evaluation,
    propensity: Propensity,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the metrics and the facts beside them, as METRICS asks for."""
    result = {
        "metrics": evaluation.result(settings.skip_unlabelled),
        "by_frequency": evaluation.by_frequency(settings.skip_unlabelled),
        "model": str(settings.model),
        "test": str(settings.test),
        "n_instances": evaluation.n_instances,
        "n_unlabelled": evaluation.n_unlabelled,
        "skip_unlabelled": settings.skip_unlabelled,
        "n_labels": header.n_labels,
        "k": list(evaluation.ks),
        "propensity_a": propensity.a,
        "propensity_b": propensity.b,
        "ranking": settings.ranking,
        "coverage_of": "labels in the test truth",
        **facts,
        "version": __version__,
    }
    if evaluation.bootstrap is not None:
        result["bootstrap"] = settings.bootstrap
        result["intervals"] = evaluation.bootstrap.intervals(settings.skip_unlabelled)
    return result


def _page(result: dict[str, Any], ks: tuple[int, ...]) -> str:
    """Return the tables, and what one must know to read them."""
    left_out = "left out" if result["skip_unlabelled"] else "counted as zero"
    order = {
        "plain": "PSP and PSnDCG on the plain ranking",
        "propensity": "PSP and PSnDCG on the ranking re-ordered by propensity",
        "score by propensity": "all metrics on lists scored by propensity",
    }[result["ranking"]]
    tables = [metrics_table(result["metrics"], ks), ""]
    if "intervals" in result:
        tables += [f"95 % of {result['bootstrap']:,} bootstrap replicates", interval_table(result["intervals"], ks), ""]
    explanation = (
        f"{result['n_instances']:,} instances, {result['n_unlabelled']:,} of them without labels ({left_out}); "
        f"propensity A {result['propensity_a']:g} B {result['propensity_b']:g}, {order}; "
        f"{scoring_words(result['damping'], result['calibrate'])}; coverage of {result['coverage_of']}"
    )
    return "\n".join([*tables, frequency_table(result["by_frequency"], ks[-1]), "", explanation])
