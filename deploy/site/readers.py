"""The line at the top of every page of the site: for whom it is. mkdocs calls these functions while it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page


def readers_of(page: Page, readers: dict[str, str]) -> str:
    """Return for whom a page is, by its title, its part of the navigation, or its folder.

    Raises
    ------
    PluginError
        If `extra.readers` of mkdocs.yml has neither: the build ends.
    """
    parts = [ancestor.title for ancestor in page.ancestors]
    names = [page.title, *reversed(parts), page.file.src_uri.split("/")[0]]
    for name in names:
        if name in readers:
            return readers[name]
    raise PluginError(f"{page.file.src_uri}: extra.readers of mkdocs.yml does not name its readers")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Add the line behind the heading. The first page names its readers itself."""
    if page.is_homepage:
        return markdown
    heading, _sign, text = markdown.partition("\n")
    return f"{heading}\n\n*For {readers_of(page, config.extra['readers'])}.*\n{text}"
