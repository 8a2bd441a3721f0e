"""What the site needs beyond the pages: pictures and files outside `docs/`, and the notebook as a page."""

import json
import re
from pathlib import Path
from posixpath import relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LINK = re.compile(r'(\]\(|src=")([^)"#\s]+)')
BADGE = re.compile(r"\[!\[([^]]+)\]\(https?://[^)]+\)\]")
PICTURES = (".png", ".gif", ".svg")

log = get_plugin_logger("site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures of the results, and a page for each notebook."""
    root = Path(config.config_file_path).parent
    for path in sorted((root / "results").rglob("*")):
        if path.suffix in PICTURES:
            name = path.relative_to(root).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted(Path(config.docs_dir).rglob("*.ipynb")):
        name = path.relative_to(config.docs_dir).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=notebook_page(json.loads(path.read_text()), path.name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave `docs/` to the copied picture, or to the file on GitHub."""
    docs = Path(config.docs_dir)

    def site_link(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target:
            return match[0]
        path = (docs / page.file.src_uri).parent.joinpath(target).resolve()
        if path.is_relative_to(docs):
            is_own = path.stem == Path(page.file.src_uri).stem  # a notebook's page offers the file itself
            return match[0] if is_own else match[0].replace(".ipynb", ".md")
        if not (path.is_relative_to(docs.parent) and path.exists()):
            log.warning(f"{page.file.src_uri} links to {target}, which does not exist")
            return match[0]
        name = path.relative_to(docs.parent).as_posix()
        if files.get_file_from_path(name) is not None:
            return match[1] + relpath(name, Path(page.file.src_uri).parent.as_posix())
        return f"{match[1]}{config.repo_url}/{'tree' if path.is_dir() else 'blob'}/main/{name}"

    return LINK.sub(site_link, markdown)


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown: its text, its code, and a link to the file. Badges, which are remote, become words."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        code = cell["cell_type"] == "code"
        parts.append(f"```python\n{source}\n```" if code else BADGE.sub(r"[\1]", source))
    return "\n\n".join([*parts, f"[Download the notebook]({name})", ""])
