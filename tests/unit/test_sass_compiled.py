"""A small kernel, compiled, whose machine code is executed in software (benchmarks/sass)."""

from __future__ import annotations

import shutil
import struct
import subprocess

import numpy as np
import pytest

from benchmarks.sass.disassembly import disassemble, find_nvdisasm
from benchmarks.sass.kernel import BARRIER, Kernel

SOURCE = """
extern "C" __global__ void small_kernel(const unsigned* in, unsigned* out, unsigned* counters) {
  extern __shared__ unsigned words[];
  __shared__ unsigned sum;
  const unsigned t = threadIdx.x, lane = t % 32, i = blockIdx.x * blockDim.x + t;
  if (t == 0) sum = 0;
  words[t] = in[i];
  __syncthreads();
  const unsigned x = words[blockDim.x - 1 - t];
  const unsigned y = __shfl_down_sync(~0u, x, 1), mirrored = __shfl_xor_sync(~0u, x, 31);
  atomicAdd(&sum, x & 0xFFF);
  atomicMax(counters, x);
  if (t % 3 == 0) atomicAdd(counters + 1, 1u);
  int is_same;
  const unsigned warp = __match_all_sync(~0u, t / 32, &is_same);
  const float f = rintf(float(x) * 0.125f);
  const int odd = __syncthreads_count(x & 1);
  const int is_any = __syncthreads_or(x == in[0]), is_each = __syncthreads_and(x != in[0]);
  unsigned rounds = 0;
  for (unsigned k = x % 37; k != 0 && rounds % 11 != 5; --k) rounds += __popc(k);
  const unsigned results[] = {
      y, mirrored, __shfl_up_sync(~0u, x, 3, 8), __shfl_sync(~0u, x, lane / 8 * 8 + 3),
      __ballot_sync(~0u, x & 1), __match_any_sync(~0u, x & 3), warp & unsigned(-is_same),
      __reduce_min_sync(~0u, x), __reduce_add_sync(~0u, x), __reduce_or_sync(~0u, x),
      unsigned(__reduce_max_sync(~0u, int(x))), __dp4a(x, 0x01020304u, y),
      unsigned(__dp4a(int(x), 0x01FF03FE, 5)), __byte_perm(x, mirrored, 0x7153), sum,
      unsigned(odd), unsigned(is_any), unsigned(is_each), unsigned(f), rounds, __brev(x),
      __umulhi(x, y), x / (y % 1000 + 1), __funnelshift_r(x, y, lane), __usad(x, y, 1),
      unsigned(__clz(int(x)))};
  for (int k = 0; k < 26; ++k) out[i * 26 + k] = results[k];
}
"""
THREADS, BLOCKS, RESULTS = 96, 2, 26


def word(x: int) -> int:
    return x & 0xFFFFFFFF


def signed(x: int) -> int:
    return x - (x >> 31 << 32)


def model(words: list[int], x0: int) -> list[list[int]]:
    """The results of a block, one lane after the other; `x0` is the first word of all."""
    x = words[::-1]
    rows = []
    for t in range(THREADS):
        first, lane = t // 32 * 32, t % 32
        warp = x[first : first + 32]
        mine, y = x[t], warp[min(lane + 1, 31)]
        bytes_of = [[value >> 8 * k & 0xFF for k in range(4)] for value in (mine, warp[31 - lane])]
        eight = bytes_of[0] + bytes_of[1]
        rounds, k = 0, mine % 37
        while k and rounds % 11 != 5:
            rounds, k = rounds + k.bit_count(), k - 1
        wide = mine | y << 32
        signs = [signed(b << 24) >> 24 for b in bytes_of[0]]
        rows.append(
            [
                *(y, warp[31 - lane], warp[lane - 3 if lane % 8 >= 3 else lane]),
                warp[lane // 8 * 8 + 3],
                sum(1 << k for k in range(32) if warp[k] & 1),
                sum(1 << k for k in range(32) if warp[k] % 4 == mine % 4),
                0xFFFFFFFF,
                *(min(warp), word(sum(warp)), int(np.bitwise_or.reduce(warp))),
                word(max(map(signed, warp))),
                word(y + sum(b * w for b, w in zip(bytes_of[0], (4, 3, 2, 1), strict=True))),
                word(5 + sum(b * w for b, w in zip(signs, (-2, 3, -1, 1), strict=True))),
                sum(eight[digit] << 8 * k for k, digit in enumerate((3, 5, 1, 7))),
                sum(value & 0xFFF for value in x),
                *(sum(value & 1 for value in x), int(x0 in x), int(x0 not in x)),
                int(np.rint(np.float32(mine) * np.float32(0.125))),
                *(rounds, int(f"{mine:032b}"[::-1], 2), mine * y >> 32, mine // (y % 1000 + 1)),
                *(word(wide >> lane), abs(mine - y) + 1, 32 - mine.bit_length()),
            ]
        )
    return rows


@pytest.fixture(scope="module")
def small_kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    try:
        find_nvdisasm()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on the path")
    source = tmp_path_factory.mktemp("sass") / "small.cu"
    source.write_text(SOURCE)
    cubin = source.with_suffix(".cubin")
    command = ["nvcc", "-arch=sm_90", "-fmad=false", "-cubin", "-o", str(cubin), str(source)]
    subprocess.run(command, check=True)
    return Kernel(disassemble(cubin, "small_kernel"))


def test_blocks_of_several_warps(small_kernel: Kernel) -> None:
    words = np.random.default_rng(0).integers(0, 2**31, THREADS * BLOCKS, np.uint32)
    words[THREADS:] |= 0x8000_0000
    out = np.zeros((BLOCKS, THREADS, RESULTS), np.uint32)
    counters = np.zeros(2, np.uint32)
    addresses = (array.ctypes.data for array in (words, out, counters))
    parameters = struct.pack("<QQQ", *addresses)
    for block in range(BLOCKS):
        executed = small_kernel.run(parameters, (block, 0, 0), (THREADS, 1, 1), (BLOCKS, 1, 1))
        mine = words[THREADS * block : THREADS * (block + 1)].tolist()
        wrong = np.argwhere(out[block] != np.array(model(mine, int(words[0])), np.uint32))
        assert not wrong.size, wrong[:4]
    assert counters.tolist() == [words.max(), BLOCKS * THREADS // 3]
    assert executed.places["kernel", BARRIER].instructions == 4 * THREADS // 32
    cycles = sum(totals.cycles for totals in executed.places.values())
    assert cycles < executed.cycles * THREADS // 32


def test_what_a_kernel_takes(small_kernel: Kernel) -> None:
    module = small_kernel.code.module
    assert 16 <= module.registers <= 64
    assert 4 <= module.shared_bytes <= 16
    assert len(module.code) % 128 == 0
