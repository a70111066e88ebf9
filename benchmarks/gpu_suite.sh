#!/usr/bin/env bash
# Measure and check on an NVIDIA GPU, unattended, within a number of seconds (docs/cuda.md):
#
#   benchmarks/gpu_suite.sh DIR [--seconds 400] [--parts LINE...]
#
# PYTHON (python3) is the interpreter, with torch for CUDA and the tools of the build. KIT is the
# folder of `make gpu-kit`, by default build/gpu-kit; without one cule is built here, and WHEELS is a
# folder of wheels to install in addition. ROMs come from ale-py or CULE_ROM_DIR.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
exec "${PYTHON:-python3}" -m benchmarks.gpu_suite "$@"
