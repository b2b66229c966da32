"""Sphinx configuration: Markdown pages (MyST) and docstrings, checked strictly by `make check`."""

import torchcopy

project = "torchcopy"
author = "the torchcopy contributors"
copyright = "2026, the torchcopy contributors"
version = release = torchcopy.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

default_role = "code"  # what docstrings put in single backticks

html_theme = "furo"
html_title = "torchcopy"

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
# What a signature names is shown as written, not resolved to the module it comes from.
autodoc_type_aliases = {"SourceKind": "SourceKind"}
napoleon_use_rtype = False
