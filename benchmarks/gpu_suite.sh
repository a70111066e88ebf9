#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, unattended, in parts of at most 8 minutes (docs/benchmarks.md):
#
#   benchmarks/gpu_suite.sh DIR [part...]
#
# PYTHON (python3) is the interpreter, with torch for CUDA and the tools of the build. WHEELS is a
# folder of wheels to install in addition; ROMs come from ale-py or CULE_ROM_DIR.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
exec "${PYTHON:-python3}" -m benchmarks.gpu_suite "$@"
