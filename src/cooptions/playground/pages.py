"""The files of the page."""

from importlib import resources

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
"""Endings of the files that are served, and what they are."""


def static_files() -> dict[str, str]:
    """The page, by the names of its files. Nothing else is ever served from the disk."""
    folder = resources.files("cooptions.playground").joinpath("static")
    return {item.name: item.read_text("utf-8") for item in folder.iterdir() if item.name.rpartition(".")[2] in KINDS}
