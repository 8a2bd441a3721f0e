"""Pages of a campaign: tables between markers in Markdown pages, and one self-contained HTML report."""

import base64
import html
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cooptions.campaigns.campaign import Lineup
from cooptions.campaigns.tables import LINEUP_TABLES, WHOLE_TABLES, Evidence, Table
from cooptions.errors import ArtifactError
from cooptions.files import write_bytes
from cooptions.scores.tables import markdown_table

PARTS = (*WHOLE_TABLES, *LINEUP_TABLES, "figures")
"""The generated parts of a page. A line-up's parts are named for example `ends:NAME`, or `ends` for the first one."""

NOTHING = "Nothing was measured yet."


@dataclass(frozen=True)
class Page:
    """The results and pictures from which pages are made."""

    evidence: Evidence
    pictures: Sequence[Path]

    @property
    def lineups(self) -> Sequence[Lineup]:
        return self.evidence.campaign.learned

    def part(self, name: str, relative_to: Path) -> str:
        """A generated part in Markdown."""
        if name == "figures":
            pictures = [(path.stem, Path(os.path.relpath(path, relative_to)).as_posix()) for path in self.pictures]
            return "\n".join(f"![{stem}]({path})" for stem, path in pictures) or "None yet."
        table = self.table(name)
        return markdown_table(table.head, table.rows).rstrip("\n") or NOTHING

    def table(self, name: str) -> Table:
        kind, _, lineup = name.partition(":")
        if kind in WHOLE_TABLES and not lineup:
            return WHOLE_TABLES[kind](self.evidence)
        chosen = [each for each in self.lineups if lineup in ("", each.name)]
        if kind not in LINEUP_TABLES or not chosen:
            there = ", ".join(each.name for each in self.lineups)
            raise ArtifactError(f"no part {name!r}; there are {', '.join(PARTS)}, and lineups {there}")
        return LINEUP_TABLES[kind](self.evidence, chosen[0])


def page_of(evidence: Evidence, results: Path) -> Page:
    """A page about these results, with the pictures in the same folder."""
    return Page(evidence, sorted(results.glob("*.png")))


def write_page(path: Path, page: Page) -> None:
    """Update the generated parts of a Markdown page."""
    write_bytes(path, updated(path, page).encode())


def updated(path: Path, page: Page) -> str:
    """The text of a Markdown page with its generated parts updated."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror}; run this where the page is") from None
    try:
        return with_parts(text, lambda name: page.part(name, path.parent))
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from None


def with_parts(text: str, part: Callable[[str], str]) -> str:
    """The text of a page with every marked part replaced by its current content."""
    names = list(dict.fromkeys(re.findall(r"<!-- (?:begin|end) (\S+) -->", text)))
    if not names:
        raise ArtifactError(
            f"no part to write; there are {', '.join(PARTS)}, each between {' and '.join(_markers('ends'))}"
        )
    for name in names:
        begin, end = _markers(name)
        if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
            raise ArtifactError(f"needs {begin} and {end}, once each and in this order")
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{part(name)}\n{end}{rest.split(end)[1]}"
    return text


def _markers(part: str) -> tuple[str, str]:
    return f"<!-- begin {part} -->", f"<!-- end {part} -->"


def write_html(path: Path, page: Page) -> None:
    """Write one self-contained HTML file with all tables and pictures."""
    write_bytes(path, html_report(page).encode())


def html_report(page: Page) -> str:
    """All tables and pictures as one HTML page."""
    name = html.escape(page.evidence.campaign.name)
    sections = [_section("Verdicts", page.table("verdicts")), _section("Comparisons", page.table("comparisons"))]
    for lineup in page.lineups:
        for title, kind in (("end of training", "ends"), ("mean of all evaluations", "areas"), ("seeds", "coverage")):
            sections.append(_section(f"{lineup.name}: {title}", page.table(f"{kind}:{lineup.name}")))
    sections += [_picture(path) for path in page.pictures]
    sections += [_section("Every row", page.table("scores")), _section("Time", page.table("time"))]
    return _HTML.format(name=name, body="\n".join(sections))


def _section(title: str, table: Table) -> str:
    heading = f"<h2>{html.escape(title)}</h2>"
    if not table.rows:
        return f"{heading}\n<p>{NOTHING}</p>"
    head = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in table.head)
    rows = "\n".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f'{heading}\n<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'


def _inline(cell: str) -> str:
    """A cell as HTML. Its Markdown may be a single bold or code span."""
    text = html.escape(cell)
    text = re.sub(r"^\*\*(.*)\*\*$", r"<strong>\1</strong>", text)
    return re.sub(r"^`(.*)`$", r"<code>\1</code>", text)


def _picture(path: Path) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    title = html.escape(path.stem)
    return f'<figure><img alt="{title}" src="data:image/png;base64,{content}"><figcaption>{title}</figcaption></figure>'


_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .25rem .75rem .25rem 0;
  text-align: left; vertical-align: top; }}
code {{ font-size: .85em; }}
img {{ background: #fff; max-width: 100%; }}
figure {{ margin: 2rem 0; }}
</style>
</head>
<body>
<h1>{name}</h1>
{body}
</body>
</html>
"""
