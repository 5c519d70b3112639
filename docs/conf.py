"""The site: ``sphinx-build -W docs build/site``. It needs ``pip install -e ".[docs]"`` and no network."""

import os
import re
import sys
import warnings
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # trees of examples are slow on processors that others use, too
DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import navigation  # noqa: E402

import polyfm  # noqa: E402

project = "polyfm"
author = "The polyfm developers"
copyright = author
version = release = polyfm.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["reproduction", "images", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"
highlight_language = "none"  # formulas in docstrings; examples and fenced blocks say what they are
smartquotes = False  # "auto" is code
toc_object_entries_show_parents = "hide"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autosummary_generate = [str(DOCS / "api" / "index.rst")]
autodoc_typehints = "none"  # the docstrings have types
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "polyfm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_sourcelink_suffix = ""
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "polyfm", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "install": [], "coming-from": []}

sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "copyfile_regex": "",
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")


def write_reference():
    """api/index.rst, from the public names themselves."""
    lines = ["API reference", "=============", "", "Every public name. ``polyfm.`` stands before each.", ""]
    for title, (words, names) in navigation.reference().items():
        lines += [title, "-" * len(title), "", words, ""]
        home = navigation.SECTIONS.get(title, ("", ""))[1]
        if home in navigation.WITH_WORDS:
            lines += [f".. automodule:: polyfm.{home}", "   :no-members:", ""]
        if not names:
            continue
        lines += [".. currentmodule:: polyfm", ""]
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names] + [""]
    path = DOCS / "api" / "index.rst"
    path.parent.mkdir(exist_ok=True)
    text = "\n".join(lines)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    listed = {f"polyfm.{name}.rst" for _, names in navigation.reference().values() for name in names}
    for page in path.parent.glob("generated/*.rst"):  # of an earlier build
        if page.name not in listed:
            page.unlink()


def read_page(app, docname, source):
    """Read files outside of docs/ into their pages, and add the tree of pages below a page."""
    path, text = DOCS / f"{docname}.md", source[0]
    if not path.exists():
        return
    if docname in navigation.OUTSIDE:
        path = (DOCS / navigation.OUTSIDE[docname]).resolve()
        app.env.note_dependency(str(path))
        text = path.read_text()
    text = re.sub(r"(?<=\]\()([^)#:]+)(?=[)#])", lambda link: navigation.link(path, docname, link[0]), text)
    text = text.replace("[reproduction/](reproduction/)", "`docs/reproduction/`")
    below = navigation.children(docname)
    if below:
        text += "\n\n```{toctree}\n:hidden:\n\n/" + "\n/".join(below) + "\n```\n"
    source[0] = text


def plain_references(app, what, name, obj, options, lines):
    """Labels of scikit-learn's own site, in inherited docstrings, become plain words, and formulas text."""
    for i, line in enumerate(lines):
        line = re.sub(r":(?:ref|term|doc):`([^`<]*?)\s*<[^`>]*>`", r"\1", line)
        line = re.sub(r":math:(`[^`]*`)", r"`\1`", line)
        lines[i] = re.sub(r":(?:ref|term|doc):`([^`]*)`", r"\1", line)


def plain_signs(app, what, name, obj, options, lines):
    """|p_s| and x_ are formulas in docstrings, not references; code is left alone."""
    code, margin = False, -1  # within an example; the margin of the line above a block of code
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        if line.strip() and indent <= margin:
            margin = -1
        if not code and margin < 0 and not line.lstrip().startswith(".."):
            parts = re.split(r"(``.*?``|`.*?`)", line)
            parts[::2] = [re.sub(r"(?<!\\)(\||_(?=[\s,.;:)]|$))", r"\\\1", part) for part in parts[::2]]
            lines[i] = "".join(parts)
        if line.rstrip().endswith("::") and margin < 0:
            margin = indent


def write_llms(app, exception):
    """llms.txt (llmstxt.org): every page and name in a line, for programs that read."""
    if exception or app.builder.name != "html":
        return
    lines = ["# polyfm", "", f"> {_first_sentence((DOCS / 'index.md').read_text())}", ""]
    seen = []

    def visit(page):
        for child in navigation.children(page):
            if (DOCS / f"{child}.md").exists():
                text = (DOCS / f"{child}.md").read_text()
                title = re.search(r"^# (.*)$", text, re.MULTILINE).group(1)
                seen.append(f"- [{title}](_sources/{child}.md): {_first_sentence(text)}")
                visit(child)

    visit("index")
    lines += ["## Pages", "", *seen, ""]
    for title, (_, names) in navigation.reference().items():
        lines += [f"## API: {title}", ""]
        for name in names:
            value = navigation.value(name)
            words = (value.__doc__ or "").strip().split("\n\n")[0] if callable(value) else repr(value)
            lines.append(f"- [polyfm.{name}](api/generated/polyfm.{name}.html): {' '.join(words.split())}")
        lines.append("")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines))
    for page, outside in navigation.OUTSIDE.items():
        (Path(app.outdir) / "_sources" / f"{page}.md").write_text((DOCS / outside).read_text())


def _first_sentence(text):
    """The first sentence of a page below its title."""
    for paragraph in re.split(r"\n\s*\n", text.partition("\n")[2]):
        words = " ".join(paragraph.split())
        if words and words[0] not in ":|<!#-(" and not words.startswith("```"):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("**", "")
            sentence = re.split(r"(?<=[.]) ", words)[0].rstrip(":")
            if len(sentence) > 20:  # and not a heading of a kind
                return sentence
    return ""


def setup(app):
    write_reference()
    app.connect("env-get-outdated", lambda *_: list(navigation.PAGES))  # pages below them may be new
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", plain_references, priority=100)  # before numpydoc
    app.connect("autodoc-process-docstring", plain_signs, priority=900)  # after it
    app.connect("build-finished", write_llms)
