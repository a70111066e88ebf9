"""Compile a loop over ``step`` of `AtariVectorEnv.xla` for an H100; prints its calls, a line each.

    JAX_PLATFORMS=cpu python -m tests.support.run_on_fake_cuda -m tests.support.compile_xla

JAX's CUDA plugin compiles without a GPU and without CUDA's libraries.
"""

from __future__ import annotations

from unittest import mock

import jax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import cule
from cule.envs import xla_calls

#: What the compiler is told of the GPU.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472 registers_per_core_limit: 65536 registers_per_block_limit: 65536
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 device_memory_size: 84978434048
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def main() -> None:
    jax.devices()  # finds the plugin
    found = topologies.get_topology_desc("", platform="cuda", topology="1x1x1", target_config=H100)
    sharding = NamedSharding(Mesh(found.devices[:1], "x"), PartitionSpec())
    with mock.patch.object(xla_calls, "find_device", return_value=jax.devices("cpu")[0]):
        env = cule.AtariVectorEnv("pong", 4, device="cuda", num_reset_states=1)
        handle, _, step = env.xla()
    xla_calls._register_handlers(env._batch.native, "CUDA")
    actions = jax.ShapeDtypeStruct((10, 4), "int32", sharding=sharding)
    first = jax.ShapeDtypeStruct(handle.shape, handle.dtype, sharding=sharding)
    loop = jax.jit(lambda handle, actions: jax.lax.scan(step, handle, actions))
    text = loop.lower(first, actions).compile().as_text()
    print(*(line for line in text.splitlines() if 'custom_call_target="cule' in line), sep="\n")
    env.close()


if __name__ == "__main__":
    main()
