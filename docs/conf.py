"""The site: `sphinx-build -W --keep-going -n docs build/docs`. Nothing is fetched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import make_reference  # noqa: E402  # it lies beside this file

from wend import __version__  # noqa: E402

project = "Wend"
author = "The Wend authors"
release = version = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
nitpicky = True

myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Wend {release}"
html_static_path = ["_static"]
html_css_files = ["wend.css"]
html_copy_source = False
html_show_sphinx = False
# Names of functions are long: a line each for many parameters.
maximum_signature_line_length = 90
add_module_names = False
toc_object_entries = False


def setup(app: Any) -> None:
    """Have the reference written before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: make_reference.write(HERE / "reference" / "api"))
