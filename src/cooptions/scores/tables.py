"""Markdown tables."""

from collections.abc import Sequence


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that ends in a newline, or the empty string if there are no rows."""
    if not rows:
        return ""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    lines = [escaped[0], ["---"] * len(head), *escaped[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
