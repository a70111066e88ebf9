"""Registers, stack and shared memory of the kernels as loaded: ``... resources FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cule.device import cuda_module


def main(target: Path) -> None:
    """Write what the driver says of each kernel."""
    native = cuda_module()
    assert native is not None, "the CUDA back end is not built"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(native.kernel_resources(), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
