"""Self-contained pages: one file each, with its look and its script inside, which asks no server for anything."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render_page(template: str, *, script: str | None = None, **values: Any) -> str:
    """The page as text. What `values` hold is escaped.

    Args:
        template: its name.
        script: a template of JavaScript. The page gets its text as `script`, and as `policy` a content security
            policy under which nothing but that script runs and nothing is fetched.
        values: what the template shows.
    """
    environment = Environment(
        loader=PackageLoader("torchcopy.reporters"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    if script is not None:
        text = environment.get_template(script).render()
        digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
        values["script"] = Markup(text)  # our own; no value of the program's is in it
        values["policy"] = (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'"
        )
    return environment.get_template(template).render(**values)
