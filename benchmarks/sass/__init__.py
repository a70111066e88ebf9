"""Executes a GPU kernel's machine code (SASS) in software, warp by warp, and counts instructions.

Reads the text that nvdisasm prints of a .cubin for compute capability 9.0. Addresses are those of
this process: what the kernel loads and stores is the memory that its parameters point to. A warp's
lanes part at branches and meet where the code's barriers have it (BSSY, BREAK, BSYNC, WARPSYNC);
of groups that have parted the one that was left last goes on. Only what the kernels of this project
use is known; anything else raises `NotImplementedError`. Latency, caches and schedulers are not
modelled: what comes out is a count, not a time.
"""

from sass.code import Code, load
from sass.warp import Warp

__all__ = ["Code", "Warp", "load"]
