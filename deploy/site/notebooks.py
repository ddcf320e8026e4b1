"""Notebooks as pages of the site: each docs/NAME.ipynb becomes the page NAME. mkdocs calls these functions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_STYLE = re.compile(r"<style.*?</style>\s*|(?<=<table)[^>]*", re.DOTALL)
"""Styles, borders and classes of the tables of pandas: the site has its own."""


def page_of(notebook: Path) -> str:
    """Return a notebook as Markdown: its texts, its code, and the outputs that it was saved with."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell["outputs"]]
    first, *others = parts
    download = f"[Download this page as a notebook]({notebook.name})"
    return "\n\n".join([first, download, *others]) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """Return an output as HTML if it has that form, else as text."""
    forms = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" in forms:
        return _STYLE.sub("", "".join(forms["text/html"]))
    text = "".join(forms["text/plain"]).rstrip()
    return f"```text\n{text}\n```"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook. The notebook itself is a file of the site, to be downloaded."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        path = Path(notebook.abs_src_path or "")
        files.append(File.generated(config, notebook.src_uri.replace(".ipynb", ".md"), content=page_of(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Let links to a notebook lead to its page, except the page's own: that downloads it."""
    if page.file.generated_by:
        return markdown
    return re.sub(r"\.ipynb(?=[)#])", ".md", markdown)
