"""An extension of griffe: a section ``Example:`` is code, as ``Examples:`` is."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Reads ``Example:``, which the Google style has and griffe takes for text."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section of a docstring."""
        if obj.docstring is not None:
            value = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", value, flags=re.MULTILINE)
