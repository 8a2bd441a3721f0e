"""The files of the page."""

from importlib import resources

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
"""The suffixes of the files that are served, with their media types."""


def static_files() -> dict[str, str]:
    """The files of the page by name. Nothing else on the disk is ever served."""
    folder = resources.files("cooptions.playground").joinpath("static")
    return {item.name: item.read_text("utf-8") for item in folder.iterdir() if item.name.rpartition(".")[2] in KINDS}
