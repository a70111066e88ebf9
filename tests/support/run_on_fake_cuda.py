"""Run Python on the mock CUDA device: ``python -m tests.support.run_on_fake_cuda -m MODULE ...``.

Like the interpreter, with ``-m MODULE`` or ``-c TEXT`` and its arguments.
"""

from __future__ import annotations

import runpy
import sys

import torch

from tests.support.fake_cuda import fake_cuda


def main(kind: str, what: str, *arguments: str) -> None:
    torch.set_num_threads(1)
    with fake_cuda():
        if kind == "-c":
            exec(what, {"__name__": "__main__"})
        else:
            sys.argv = [what, *arguments]
            runpy.run_module(what, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
