"""From settings to a command line and back: an option for every field, its default and help from there."""

import argparse
import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from proxml_mpi import __version__
from proxml_mpi.errors import SettingsError
from proxml_mpi.ranks.launch import announced_rank, announced_size
from proxml_mpi.settings.fields import public_name

Settings = TypeVar("Settings")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints come from one rank only."""

    def error(self, message: str) -> NoReturn:
        if announced_rank() == 0:
            print(f"{self.prog}: error: {message}\nTry '{self.prog} --help'.", file=sys.stderr, flush=True)
        if announced_size() > 1:
            from proxml_mpi.ranks.world import leave_together

            leave_together()
        sys.exit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        if announced_rank() == 0:
            super()._print_message(message, file)


def parse(kind: type[Settings], prog: str, description: str, arguments: Sequence[str] | None) -> Settings:
    """Read a command line into settings; a mistake ends the program with status 2."""
    parser = _parser(prog, description)
    _add_fields(parser, kind)
    return _settings(parser, kind, vars(parser.parse_args(arguments)))


def parse_subcommand(
    kinds: Mapping[str, type[Any]], prog: str, description: str, arguments: Sequence[str] | None
) -> tuple[str, Any]:
    """Read a command line whose first word chooses the settings; return that word and the settings."""
    parser = _parser(prog, description)
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="COMMAND")
    for name, kind in kinds.items():
        text = kind.__doc__ or ""
        _add_fields(subparsers.add_parser(name, help=text, description=text, allow_abbrev=False), kind)
    values = vars(parser.parse_args(arguments))
    name = values.pop("subcommand")
    return name, _settings(parser, kinds[name], values)


def _parser(prog: str, description: str) -> Parser:
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _settings(parser: Parser, kind: type[Settings], values: dict[str, Any]) -> Settings:
    """Make settings of parsed values; what they refuse is the user's mistake."""
    try:
        return kind(**values)
    except SettingsError as error:
        parser.error(str(error))


def _add_fields(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    """Add all fields of a settings class, those about logging last."""
    hints = typing.get_type_hints(kind)
    for field in sorted(dataclasses.fields(kind), key=lambda field: field.name.startswith("log_")):
        _add(parser, field, hints[field.name])


def _add(parser: argparse.ArgumentParser, field: "dataclasses.Field[Any]", hint: Any) -> None:
    """Add one field: a positional argument when it has no default, else an option."""
    name = public_name(field)
    if field.default is dataclasses.MISSING:
        parser.add_argument(field.name, metavar=name.upper(), type=Path, help=field.metadata["help"])
        return
    if field.metadata.get("is_argument"):
        parser.add_argument(field.name, metavar=name.upper(), type=Path, nargs="?", help=field.metadata["help"])
        return
    flag, help_text = "--" + name.replace("_", "-"), field.metadata["help"]
    if hint is bool:
        action = argparse.BooleanOptionalAction if field.default else "store_true"
        parser.add_argument(flag, dest=field.name, action=action, default=field.default, help=help_text)
        return
    if field.default not in (None, ()):
        shown = ",".join(f"{value:g}" for value in field.default) if isinstance(field.default, tuple) else field.default
        help_text += f" [{shown}]"
    if hint == tuple[Path, ...]:
        metavar = field.metadata["metavar"]
        parser.add_argument(flag, dest=field.name, nargs="+", type=Path, default=(), metavar=metavar, help=help_text)
        return
    choices = field.metadata.get("choices")
    # An option that may stand alone, without its value.
    alone = {"nargs": "?", "const": field.metadata["alone"]} if "alone" in field.metadata else {}
    parser.add_argument(
        flag,
        dest=field.name,
        type=_reader(hint, bool(field.metadata.get("is_duration"))),
        default=field.default,
        choices=choices,
        metavar=field.metadata.get("metavar") or (None if choices else name.rpartition("_")[2].upper()),
        help=help_text,
        **alone,
    )


def _reader(hint: Any, is_duration: bool) -> Any:
    """Return the function that reads a value of this type."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    if is_duration:
        return _expecting(read_duration, "a time such as 3h, 90m or 30s")
    return _EXPECTED.get(hint) or _EXPECTED.get(typing.get_origin(hint)) or hint


def _expecting(read: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    """Wrap a reader so that what it refuses is quoted beside what was expected."""

    def reader(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected {expected}") from None

    return reader


def read_duration(text: str) -> float:
    """Read '3h', '90m', '30s' or '1h30m' as seconds; a bare number is seconds."""
    match = re.fullmatch(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?", text)
    if match is None or not any(match.groups()):
        raise ValueError(text)
    return sum(float(part) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True) if part)


_EXPECTED = {
    int: _expecting(int, "a whole number"),
    float: _expecting(float, "a number"),
    tuple[float, ...]: _expecting(lambda text: tuple(float(part) for part in text.split(",")), "numbers, as 1,0.3,0.1"),
    tuple: _expecting(lambda text: tuple(int(part) for part in text.split(",")), "whole numbers, as 1,3,5"),
}
