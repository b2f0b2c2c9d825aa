"""A page of HTML that needs nothing but itself: its style, and the few elements that it is made of.

Whatever comes from a file goes through `escape`; elements take content that is HTML already.
"""

import html
import math
from collections.abc import Iterable, Sequence

STYLE = """
:root { color-scheme: light dark; --back: #fbfbfa; --card: #fff; --ink: #1c2024; --muted: #5b6570; --rule: #dfe3e6;
  --s0: #2f6db3; --s1: #d07a1f; --s2: #3d8f5f; --good: #1f7a45; --bad: #a8413a; --soft: #eef3f9; }
@media (prefers-color-scheme: dark) { :root { --back: #15181b; --card: #1d2125; --ink: #e6e9ec; --muted: #9aa5b0;
  --rule: #353c43; --s0: #6aa5e6; --s1: #e5a254; --s2: #6cc08f; --good: #6cc08f; --bad: #e58a83; --soft: #26303b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 74rem; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--s0); }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .75rem 0; }
code { font: 13px/1.45 ui-monospace, monospace; }
.muted { color: var(--muted); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.9rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: .5rem .7rem; }
.tile b { display: block; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: .85rem; }
.scroll { overflow-x: auto; max-width: 100%; margin: .75rem 0; border: 1px solid var(--rule); border-radius: 6px;
  background: var(--card); width: fit-content; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .7rem; text-align: right; vertical-align: top; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
th { font-weight: 600; color: var(--muted); }
tr + tr > * { border-top: 1px solid var(--rule); }
td.text { white-space: normal; overflow-wrap: break-word; }
.text { text-align: left; }
.wide { min-width: 16rem; }
@media (max-width: 30rem) { .wide { min-width: 12.5rem; } }
.row { display: flex; flex-wrap: wrap; align-items: flex-start; gap: .8rem; margin: .75rem 0; }
.row .scroll { margin: 0; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: .6rem .7rem;
  flex: 1 1 20rem; max-width: 26rem; min-width: 0; }
@media (min-width: 66rem) { figure { flex: 0 0 calc((100% - 1.6rem) / 3); } }
figcaption { font-weight: 600; font-size: .9rem; }
.keys { color: var(--muted); font-size: .8rem; }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin: 0 .3rem 0 .1rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--muted); }
svg .name { fill: var(--ink); }
svg .grid { stroke: var(--rule); stroke-width: 1; fill: none; }
svg .mark { stroke: var(--bad); stroke-dasharray: 4 3; }
.s0 { fill: var(--s0); background: var(--s0); stroke: none; }
.s1 { fill: var(--s1); background: var(--s1); stroke: none; }
.s2 { fill: var(--s2); background: var(--s2); stroke: none; }
svg .line { fill: none; stroke-width: 1.8; background: none; }
svg .line.s0 { stroke: var(--s0); } svg .line.s1 { stroke: var(--s1); } svg .line.s2 { stroke: var(--s2); }
.chip { display: inline-block; background: var(--soft); border-radius: 4px; padding: 0 .4rem;
  margin: .1rem .2rem .1rem 0; max-width: 100%; overflow-wrap: anywhere; }
.chip small { color: var(--muted); }
.hit { color: var(--good); font-weight: 600; }
.minus small { color: var(--bad); }
"""

POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def escape(text: object) -> str:
    """Return a text as HTML: nothing in it is markup, and nothing that is not Unicode is left."""
    return html.escape(str(text).encode("utf-8", "replace").decode(), quote=True)


def document(title: str, content: str) -> str:
    """Return the whole page; the title is escaped already."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{content}</body>\n</html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Sequence[int] = (0,)) -> str:
    """Return a table in a box that scrolls by itself; numbers stand right, text_columns left."""

    def cells(tag: str, values: Sequence[str]) -> str:
        kinds = (' class="text"' if number in text_columns else "" for number in range(len(values)))
        return "".join(f"<{tag}{kind}>{value}</{tag}>" for kind, value in zip(kinds, values, strict=True))

    lines = [f"<tr>{cells('th', head)}</tr>"] if any(head) else []
    lines += [f"<tr>{cells('td', row)}</tr>" for row in rows]
    return '<div class="scroll" tabindex="0"><table>\n' + "\n".join(lines) + "\n</table></div>\n"


def tiles(facts: Iterable[tuple[str, str]]) -> str:
    """Return facts that catch the eye: what, and how much."""
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in facts)
        + "</div>\n"
    )


def row(*boxes: str) -> str:
    """Return tables and charts side by side as far as there is room."""
    return '<div class="row">\n' + "".join(boxes) + "</div>\n"


def code_box(text: str) -> str:
    """Return a command line; it is escaped already."""
    return f'<div class="scroll" tabindex="0"><table><tr><td class="text"><code>{text}</code></td></tr></table></div>\n'


def muted(text: str) -> str:
    """Return a remark."""
    return f'<p class="muted">{text}</p>\n'


def percent(value: float) -> str:
    """Return a percentage; nan stands for nothing to divide by."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def size(n_bytes: float) -> str:
    """Return a size for people."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes:.0f} bytes"


def section(name: str, title: str, *content: str) -> str:
    """Return a section with its heading."""
    return f'<section id="{name}">\n<h2>{title}</h2>\n' + "".join(content) + "</section>\n"


def chip(text: str, number: str, is_hit: bool = False, is_minus: bool = False) -> str:
    """Return a word with a number beside it; the word is escaped already."""
    kind = "chip minus" if is_minus else "chip"
    word = f'<span class="hit">✓ {text}</span>' if is_hit else text
    beside = f" <small>{number}</small>" if number else ""
    return f'<span class="{kind}"><bdi>{word}</bdi>{beside}</span>'
