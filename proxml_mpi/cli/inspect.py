"""proxml-inspect: what is in a model file."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from proxml_mpi.cli.options import parse
from proxml_mpi.cli.run import run, run_alone
from proxml_mpi.settings.inspect import InspectSettings

if TYPE_CHECKING:
    from proxml_mpi.ranks.world import World
    from proxml_mpi.store.model_reader import ModelHeader

PROG = "proxml-inspect"
DESCRIPTION = """Check the model file MODEL and list its facts, its datasets and the certificates of its labels, or
show one label, one feature or histograms, verify every certificate, or export the weights;
with --merge, first join models of parts of the labels into it; with --add-index or --compress, first write it anew."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    settings = parse(InspectSettings, PROG, DESCRIPTION, arguments)
    if settings.verify is None:
        return run_alone(PROG, lambda: inspect(settings))

    def story(world: "World") -> None:
        from proxml_mpi.analysis.verify import verify

        with world.together():
            if world.is_first:
                change(settings)
        verify(settings, world)

    return run(PROG, settings, story)


def inspect(settings: InspectSettings) -> None:
    """Show what is asked for, after writing the model anew when asked to."""
    from proxml_mpi.store.model_reader import read_header

    change(settings)
    header = read_header(settings.model)
    if settings.export is not None:
        export_to(settings.export, header, settings.overwrite)
    elif settings.histogram is not None:
        show_histograms(settings.histogram, header, settings.json)
    elif settings.label is not None or settings.feature is not None:
        show_one(settings, header)
    else:
        summarize(header, settings.json)


def change(settings: InspectSettings) -> None:
    """Join parts, add the index, compress, as far as asked to."""
    if settings.merge:
        from proxml_mpi.store.merge import merge_models

        command_line = shlex.join([PROG, str(settings.model), "--merge", *map(str, settings.merge)])
        merge_models(settings.merge, settings.model, settings.overwrite, command_line)
    if settings.add_index or settings.compress:
        rewrite(settings)


def summarize(header: "ModelHeader", as_json: bool) -> None:
    """Print the facts of the whole model."""
    from proxml_mpi.analysis.histograms import histograms
    from proxml_mpi.analysis.words import jsonable
    from proxml_mpi.store.listing import describe_file, list_certificates, list_file
    from proxml_mpi.store.model_reader import read_labels

    block = read_labels(header, 0, header.n_labels)
    if as_json:
        print(json.dumps(jsonable(describe_file(header.path) | histograms(block)), indent=2))
        return
    for line in (*list_file(header.path), "", *list_certificates(block)):
        print(line)


def show_one(settings: InspectSettings, header: "ModelHeader") -> None:
    """Print one label or one feature."""
    from proxml_mpi.analysis.views import feature_facts, feature_page, find_id, label_facts, label_page
    from proxml_mpi.analysis.words import jsonable
    from proxml_mpi.store.names import read_names

    names = read_names(header.path, header.n_labels, header.n_features)
    if settings.label is not None:
        label = find_id("--label", settings.label, header.n_labels, names.labels)
        facts, page = label_facts(header, names, label, settings.top), label_page
    else:
        feature = find_id("--feature", str(settings.feature), header.n_features, names.features)
        facts, page = feature_facts(header, names, feature, settings.top), feature_page
    print(json.dumps(jsonable(facts), indent=2) if settings.json else page(facts))


def show_histograms(picture: Path, header: "ModelHeader", as_json: bool) -> None:
    """Print histograms, and draw them unless the picture is '-'."""
    from proxml_mpi.analysis.histograms import draw, histograms, page
    from proxml_mpi.store.model_reader import read_labels

    counts = histograms(read_labels(header, 0, header.n_labels))
    print(json.dumps(counts, indent=2) if as_json else page(counts))
    if picture != Path("-"):
        draw(picture, counts)


def export_to(path: Path, header: "ModelHeader", overwrite: bool) -> None:
    """Write the model for other programs."""
    from proxml_mpi.analysis.export import export
    from proxml_mpi.files import check_target

    check_target(path, overwrite)
    export(header, path)
    print(f"{path}: {header.n_labels:,} labels, {header.n_features:,} features, {header.indptr[-1]:,} weights")


def rewrite(settings: InspectSettings) -> None:
    """Write a model anew: with its weights by feature, compressed, or both."""
    from proxml_mpi.score.index import build_index
    from proxml_mpi.store.model_reader import StoredIndex, read_header, read_labels
    from proxml_mpi.store.rewrite import rewrite_model

    header = read_header(settings.model)
    block = read_labels(header, 0, header.n_labels)
    stored = None
    if settings.add_index:
        index = build_index(block.indptr, block.indices, block.data, block.bias, header.n_features, 0)
        stored = StoredIndex(index.indptr, index.label_at[index.positions], index.weights)
    rewrite_model(settings.model, stored, block, settings.compress)
