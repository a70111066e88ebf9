"""Imported when Python starts, also in child processes: `make asan` and `make tsan`.

Lets the finder of the editable installation import the native module that SANITIZED_CORE names, and
not the one for GPUs, which has no sanitizers.
"""

import os
import sys

for finder in sys.meta_path:
    modules = getattr(finder, "known_wheel_files", {})
    if "cule._core" in modules:
        modules["cule._core"] = os.environ["SANITIZED_CORE"]
        modules.pop("cule._cuda", None)
