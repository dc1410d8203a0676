"""The documentation site: `make docs` builds it into build/site. What stands where, index.md says."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pywheel  # noqa: E402

project = "pywheel"
author = "The pywheel developers"
copyright = author  # noqa: A001  (Sphinx reads it)
version = release = pywheel.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "_site.contents", "_site.docstrings"]
exclude_patterns = ["_site", "Thumbs.db"]
root_doc = "index"

# ---- pages: plain Markdown, which GitHub shows as well --------------------------------------------------------------
myst_enable_extensions = ["attrs_block", "attrs_inline"]
myst_heading_anchors = 4  # as GitHub names them
myst_links_external_new_tab = False

# ---- the reference, from the docstrings -----------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("AnyRetry", "Duration", "Listener", "Place", "Ref", "Seconds")}
add_module_names = False
python_use_unqualified_type_names = True
default_role = "literal"  # the docstrings' single backticks
# The standard library's, for a build that asks no network; type variables and aliases; what is nobody's to import.
nitpick_ignore_regex = [
    ("py:.*", pattern) for pattern in (r"(?!pywheel)[a-z_]+\..*", r"[^.]+", r"pywheel\..*\._?[A-Z]\w*")
]

# ---- how it looks ---------------------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"pywheel {version}"
html_copy_source = True  # llms.txt leads to the Markdown
html_show_sourcelink = True
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_theme_options = {
    "source_repository": "https://github.com/pywheel/pywheel/",
    "source_branch": "main",
    "source_directory": "docs/",
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
