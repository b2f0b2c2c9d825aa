"""What the doctor found: a page for people, JSON for programs."""

import json
import textwrap
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from proxml_mpi import __version__

WIDTH = 110


class Level(StrEnum):
    """How a finding is meant: only `change` asks for something before a run."""

    OK = "ok"
    NOTE = "note"
    CHANGE = "change"


class Finding(NamedTuple):
    """One thing that was examined."""

    level: Level
    topic: str
    found: str
    advice: str = ""  # what to change, and for a note what may be changed


def fine(topic: str, found: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(Level.OK, topic, found)


def note(topic: str, found: str, advice: str) -> Finding:
    """Return a finding that works, and could be better."""
    return Finding(Level.NOTE, topic, found, advice)


def change(topic: str, found: str, advice: str) -> Finding:
    """Return a finding that must be changed."""
    return Finding(Level.CHANGE, topic, found, advice)


def n_changes(findings: Sequence[Finding]) -> int:
    """Return how many findings must be changed."""
    return sum(finding.level == Level.CHANGE for finding in findings)


def page(findings: Sequence[Finding]) -> str:
    """Return one page: what was found, and below it, after an arrow, what to change."""
    width = max(len(finding.topic) for finding in findings)
    lines = [f"proxml-doctor {__version__}", ""]
    for level, topic, found, advice in findings:
        lines += _hanging(f"{level:<7} {topic:<{width}}  ", found)
        if advice:
            lines += _hanging(" " * (10 + width) + "-> ", advice)
    n_notes = sum(finding.level == Level.NOTE for finding in findings)
    return "\n".join([*lines, "", f"{n_changes(findings)} to change, {n_notes} to know"])


def as_json(findings: Sequence[Finding]) -> str:
    """Return the findings as JSON."""
    entries = [finding._asdict() for finding in findings]
    return json.dumps({"version": __version__, "all_is_well": n_changes(findings) == 0, "findings": entries}, indent=2)


def _hanging(begin: str, text: str) -> list[str]:
    """Wrap a text so that all of its lines stand below the first one."""
    wrapper = textwrap.TextWrapper(WIDTH, begin, " " * len(begin), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)
