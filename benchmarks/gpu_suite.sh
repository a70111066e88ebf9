#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, unattended: build, tests, CPU/GPU equality, sanitizer, speed,
# profile, short training. Each part has a time limit in seconds, which CULE_SUITE_<PART> changes (0
# skips the part). Usage:
#
#   benchmarks/gpu_suite.sh DIR        writes DIR/*.log, DIR/*.json and DIR/summary.txt
#
# PYTHON (python3) needs torch with CUDA, numpy, gymnasium, pytest, pybind11, cmake, ninja and
# scikit-build-core; the suite installs the package into it, editable. ROMs come from ale-py or
# CULE_ROM_DIR.
set -uo pipefail
if [ $# -ne 1 ]; then
  echo "usage: benchmarks/gpu_suite.sh DIR" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
summary=$out/summary.txt
: >"$summary"

note() { echo "$*" | tee -a "$summary"; }

# part NAME DEFAULT_SECONDS COMMAND...: runs it under its limit, log in DIR/NAME.log.
part() {
  local name=$1 limit_name seconds started status
  limit_name=CULE_SUITE_$(echo "$name" | tr '[:lower:]-' '[:upper:]_')
  seconds=${!limit_name:-$2}
  shift 2
  if [ "$seconds" = 0 ]; then
    note "$name: skipped ($limit_name=0)"
    return 0
  fi
  started=$(date +%s)
  timeout --kill-after=10 "$seconds" "$@" >"$out/$name.log" 2>&1
  status=$?
  local took=$(($(date +%s) - started))
  if [ $status = 0 ]; then
    note "$name: ok, $took s; $(grep -v '^\s*$' "$out/$name.log" | tail -1 | cut -c1-160)"
  elif [ $status = 124 ] || [ $status = 137 ]; then
    note "$name: stopped at its limit of $seconds s; $(tail -1 "$out/$name.log" | cut -c1-160)"
  else
    note "$name: FAILED ($status), $took s; $(tail -1 "$out/$name.log" | cut -c1-160)"
  fi
  return $status
}

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi >"$out/nvidia-smi.log" 2>&1; then
  note "no NVIDIA GPU: nvidia-smi is missing or fails"
  exit 1
fi
note "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1)"

nvidia_arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d '. ')
export CULE_CUDA_ARCHITECTURES=${CULE_CUDA_ARCHITECTURES:-$nvidia_arch}
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL
part build 420 "$python" -m pip install --no-build-isolation --no-deps --no-index -q \
  -C cmake.define.CULE_CUDA=ON -e . || exit 1
part info 60 "$python" -m cule.cli info
if ! "$python" -c 'import sys; from cule.games import rom_status
sys.exit(not any(status.md5_ok for status in rom_status()))'; then
  note "no ROMs, or cule cannot be imported: install ale-py and gymnasium, or set CULE_ROM_DIR"
  exit 1
fi
"$python" -c 'import json; from cule.device import cuda_module
print(json.dumps(cuda_module().kernel_resources(), indent=1))' >"$out/kernel_resources.json" 2>/dev/null

workers=()
if "$python" -c 'import xdist' 2>/dev/null; then workers=(-n 4); fi
test_options=(-q -p no:cacheprovider -o addopts= --import-mode=importlib)
part tests 420 "$python" -m pytest "${test_options[@]}" -m "gpu and not slow" tests/gpu \
  --require gpu
part equality 600 "$python" -m pytest "${test_options[@]}" "${workers[@]}" -m "gpu and slow" \
  tests/gpu --require gpu

bench=("$python" -m cule.cli bench)
small=("${bench[@]}" --engines cule-cuda --load emulation --games pong --seconds 0 --rounds 2
  --no-memory)
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    part "$tool" 240 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "${small[@]}" --num-envs 40 --round-steps 1 --out "$out/$tool"
  done
else
  note "memcheck, racecheck: skipped (no compute-sanitizer)"
fi

interpreter=(--preset gpu --engines cule-cuda@interpreter)
part fps-sizes 300 "${bench[@]}" "${interpreter[@]}" --minutes 4 --out "$out/fps-sizes"
part geometry 480 "${bench[@]}" --preset gpu-geometry --minutes 7 --out "$out/geometry"
part fps-57 600 "${bench[@]}" "${interpreter[@]}" --games 57 --num-envs 4096,32768 --minutes 9 \
  --no-memory --out "$out/fps-57"
part kernels 600 "${bench[@]}" --preset gpu --games pong,seaquest --num-envs 4096,32768 --minutes 8 \
  --engines cule-cuda@interpreter,cule-cuda@compiled --no-memory --out "$out/kernels"
part translations 600 "$python" -m benchmarks.sass.translations --games default \
  --architecture "sm_$nvidia_arch" --out "$out/translations.json"
if command -v ncu >/dev/null; then
  part ncu 240 ncu --clock-control none --set basic --section SpeedOfLight --section WarpStateStats \
    --kernel-name "regex:step|find_bands" --launch-skip 6 --launch-count 6 \
    "${small[@]}" --num-envs 4096 --round-steps 4 --out "$out/ncu"
else
  note "ncu: skipped (not found)"
fi
train=("$python" -m cule.cli train)
pong=(--game pong --device cuda --num-envs 1024 --total-steps 20000000 --no-progress-bar)
part train-ppo 150 "${train[@]}" ppo "${pong[@]}" --out "$out/train-ppo"
part train-vtrace 150 "${train[@]}" vtrace --num-batches 16 --num-steps 16 "${pong[@]}" \
  --out "$out/train-vtrace"
apex=(apex-dqn-gpu --game pong --device cuda --cuda-graphs --log-every 200000 --no-progress-bar)
part train-apex 60 "${train[@]}" "${apex[@]}" --out "$out/train-apex"
part train-apex-overlap 60 "${train[@]}" "${apex[@]}" --overlap --out "$out/train-apex-overlap"
train_fps=("${bench[@]}" --games pong --engines cule-cuda --load training --no-memory
  --num-envs 256,1024,4096 --algorithms a2c,ppo,vtrace,dqn --seconds 20 --minutes 3)
part train-fps 300 "${train_fps[@]}" --out "$out/train-fps"
part train-fps-graphs 300 "${train_fps[@]}" --cuda-graphs --out "$out/train-fps-graphs"
part replay 120 "$python" benchmarks/replay.py --device cuda --out "$out/replay.json"
{
  echo
  for name in fps-57 geometry kernels; do
    [ -f "$out/$name/table.txt" ] && sed -n '/by number of environments/,/^$/p' "$out/$name/table.txt"
  done
  [ -f "$out/ncu.log" ] && grep -E "step_consoles|find_bands|finish_step|Duration|Throughput|Registers|Occupancy" \
    "$out/ncu.log" | head -60
} >>"$summary"
cat "$summary"
