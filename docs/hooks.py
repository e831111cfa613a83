"""What the documentation site changes in pages: tables from the code, equations as MathML, names of pages in links."""

import html
import posixpath
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

GENERATED = runpy.run_path(str(Path(__file__).parent / "generated.py"))
EQUATIONS = tomllib.loads((Path(__file__).parent / "equations.toml").read_text())["core"]


TITLES: dict[str, str] = {}
"""What the list of pages calls each file."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its generated tables; a link that leaves docs/ is its text, and pages have their names."""
    markdown = GENERATED["filled"](markdown)
    folder = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        text, target = match[1], posixpath.normpath(posixpath.join(folder, match[2]))
        if target.startswith(".."):
            return text
        return f"[{TITLES.get(target, text) if text.endswith('.md') else text}]({match[2]}{match[3] or ''})"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)", link, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """The page with its equations set: those in the text, and those of functions in the API reference."""
    content = re.sub(r'<span class="arithmatex">\\\((.+?)\\\)</span>', lambda m: mathml(m[1]), content, flags=re.DOTALL)
    content = re.sub(
        r'<div class="arithmatex">\s*\\\[(.+?)\\\]\s*</div>', lambda m: block(m[1]), content, flags=re.DOTALL
    )
    for module, functions in EQUATIONS.items():
        for name, latex in functions.items():
            heading = re.escape(f'id="consilience.core.{module}.{name}"')
            begins = rf'(<h\d {heading}.*?<div class="doc doc-contents[^"]*">)'
            content = re.sub(begins, lambda m, latex=latex: m[1] + block(latex), content, count=1, flags=re.DOTALL)
    return content


def mathml(latex: str, display: str = "inline") -> str:
    """LaTeX as MathML, which browsers draw by themselves."""
    from latex2mathml.converter import convert

    return str(convert(html.unescape(latex).strip(), display=display))


def block(latex: str) -> str:
    """An equation on its own line; one that is too wide for the screen can be scrolled, by keyboard too."""
    set_ = mathml(latex, "block")
    return f'<div class="equation" tabindex="0" role="group" aria-label="equation">{set_}</div>'


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Pages of docs/ that the list does not name yet are added at its end, so that none is lost."""
    from mkdocs.structure.nav import Section
    from mkdocs.structure.pages import Page

    known = {page.file.src_uri for page in nav.pages}
    TITLES.update({page.file.src_uri: page.title for page in nav.pages if page.title})
    left = [file for file in files.documentation_pages() if file.src_uri not in known]
    pages = [file.page or Page(None, file, config) for file in left]
    if pages:
        section = Section("More", pages)
        nav.items.append(section)
        for page in pages:
            page.parent = section
            nav.pages.append(page)
    return nav


SCHEME = """<script>
{ const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => { document.body.dataset.mdColorScheme = dark.matches ? "slate" : "default"; };
  dark.addEventListener("change", follow); follow(); }
</script>"""
"""Light or dark, as the reader's system is."""


def on_post_page(output: str, **_: Any) -> str:
    """The page in the reader's colours. Parts of a table of contents are no landmarks of their own."""
    output = re.sub(r"(<body[^>]*>)", lambda m: m[1] + SCHEME, output, count=1)
    return re.sub(r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="presentation">', output)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for pages that are made from templates alone."""
    return on_post_page(output_content)
