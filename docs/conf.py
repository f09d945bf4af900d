"""How Sphinx builds the site: ``make docs``. The navigation is the lists of index.md; pages are plain Markdown."""

from __future__ import annotations

import re
from typing import Any

project = "airflow-delta-provider"
author = "its contributors"
copyright = author
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns: list[str] = []
nitpicky = True
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "1100px", "sidebar_width": "260px"}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_copy_source = False
html_show_sphinx = False
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # JSON with comments is shown, and is no JSON
_SECTION = re.compile(r"^## (?P<caption>[^\n]+)\n(?P<list>.*?)(?=^## |\Z)", re.M | re.S)
_LINK = re.compile(r"^- \[(?P<title>[^]]+)\]\((?P<page>[^)]+)\.md\)", re.M)


def navigation(text: str) -> str:
    """Return the navigation that the lists of index.md are: one part for each section that links to pages."""
    parts = []
    for section in _SECTION.finditer(text):
        pages = "\n".join(f"{link['title']} <{link['page']}>" for link in _LINK.finditer(section["list"]))
        if pages:
            parts.append(f"```{{toctree}}\n:hidden:\n:caption: {section['caption']}\n\n{pages}\n```\n")
    return "\n".join(parts)


def add_navigation(app: Any, name: str, source: list[str]) -> None:
    """Append the navigation to the first page; it stands in no file, so that the page reads well by itself."""
    if name == root_doc:
        source[0] += "\n" + navigation(source[0])


def setup(app: Any) -> None:
    """Let Sphinx know."""
    app.connect("source-read", add_navigation)
