"""What the documentation site changes in pages: links to files of the repository outside docs/ become their names."""

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page, in which `[text](../path)` is `text`, as the site has no such file."""
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", markdown)


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Pages of docs/ that the list does not name yet are added at its end, so that none is lost."""
    from mkdocs.structure.nav import Section
    from mkdocs.structure.pages import Page

    known = {page.file.src_uri for page in nav.pages}
    left = [file for file in files.documentation_pages() if file.src_uri not in known]
    pages = [file.page or Page(None, file, config) for file in left]
    if pages:
        section = Section("More", pages)
        nav.items.append(section)
        for page in pages:
            page.parent = section
            nav.pages.append(page)
    return nav


def on_post_page(output: str, **_: Any) -> str:
    """The page without the one script that the theme takes from elsewhere, for searching in pages opened from a disk.

    Searching works where the site is served, such as by `python -m http.server -d site`.
    """
    return re.sub(r'<script src="https?://[^"]+"></script>', "", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for pages that are made from templates alone."""
    return on_post_page(output_content)
