"""Templates of the pages: text of a log or a manifest is escaped, and a name that a template lacks is an error."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def environment_of(*folders: Path) -> Environment:
    """Return the templates of some folders; a template is looked for in the order of the folders.

    Parameters
    ----------
    *folders
        Folders of templates.
    """
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
