"""Environments on a GPU: what `cule.envs.backend.Backend` is there, over ``cule._cuda.Batch``.

In: a `BatchPlan` and a device. Out: results in tensors of that device, written by kernels on
torch's current stream. Device memory is one tensor, so it counts as torch's and returns to torch
when the batch is closed; that it fits is checked first. `step` neither allocates nor waits.
"""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from cule import _core
from cule.device import free_device_bytes
from cule.envs.device_memory import (
    COMPILED_LOCAL_BYTES,
    FREE_PART_FOR_SLOTS,
    LEAST_SLOTS,
    DeviceOutputs,
    MemoryEstimate,
    device_errors,
    log_capacity,
    make_reserve,
    pool_slots,
    short_frame_envs,
)
from cule.envs.errors import ActionRangeError
from cule.envs.launch import Geometry, choose_geometry
from cule.envs.options import EnvOptions
from cule.envs.plan import STEPS_ALIVE, BatchPlan, native_options, reset_rows, results_bytes
from cule.envs.results import RunningKernel
from cule.envs.translation import MissingCompilerError, Translation
from cule.errors import (
    DeviceError,
    InvalidArgumentError,
    InvalidStateError,
    NotResetError,
    OutOfDeviceMemoryError,
)
from cule.games.language import OBJECT_COLUMNS

if TYPE_CHECKING:
    from cule import _cuda


#: Fault words of batches that were not closed: pinned memory has no stream that would wait for the
#: kernels which may write it.
_faults_in_use: list[torch.Tensor] = []


class CudaBatch:
    """Environments on one GPU."""

    #: CPU threads that step the environments.
    num_threads = 0

    def __init__(
        self,
        plan: BatchPlan,
        options: EnvOptions,
        device: torch.device,
        native: ModuleType,
        geometry: Geometry | None = None,
    ) -> None:
        """Make the cached reset states on the CPU and lay the batch out on the device.

        `native` is the module `cule._cuda`; the geometry is chosen from batch and device unless
        given.
        """
        self.device = device
        self._plan = plan
        self._native = native
        self._num_envs = options.num_envs
        self._is_joystick = options.continuous
        rows, reset_set = reset_rows(plan, options)
        geometry = self._geometry = geometry or choose_geometry(options.num_envs, device)
        if device.type == "cuda":
            self._home = torch.cuda.current_stream(device)  # that the memory belongs to
        self._streams: set[torch.cuda.Stream] = set()  # that kernels have used it on
        with self._on_device():
            self._batch: _cuda.Batch = native.Batch(
                plan.games,
                plan.game_index,
                plan.modes,
                plan.difficulties,
                plan.action_delays,
                plan.num_modifications,
                native_options(plan, options),
                reset_set=reset_set,
                reset_snapshots=rows,
                log_capacity=log_capacity(plan, options),
                lanes_per_warp=geometry.lanes_per_warp,
                warps_per_block=geometry.warps_per_block,
            )
            self.state_size = self._batch.state_size
            self.console_bytes = self._batch.console_bytes
            # Loads the kernels, which a stream under capture may not.
            local_bytes = max(kernel["local_bytes"] for kernel in native.kernel_resources())
            if self._may_compile(options.kernel):
                local_bytes = max(local_bytes, COMPILED_LOCAL_BYTES)
            local_pool_bytes = native.reserve_local_memory(local_bytes)
            places = self._allocate(local_pool_bytes, results_bytes(plan, options))
            constants = torch.from_numpy(self._batch.place_at(*places))
            self._memory[: len(constants)].copy_(constants)
            self._seeds = torch.empty(self._num_envs, dtype=torch.int64, device=device)
            # Kernels write it; the host reads it without waiting for them.
            pinned = device.type == "cuda"
            self._faults = torch.zeros(1, dtype=torch.int32, pin_memory=pinned)
            if pinned:
                torch.cuda.synchronize(device)  # whatever stream steps come on
        self._fault_word = self._faults.numpy()
        self._translation: Translation | None = None
        self._choose_kernel(options.kernel, geometry)

    # --- What `Backend` asks for ------------------------------------------------------------------

    def reset(
        self, mask: NDArray[np.bool_] | None, seeds: NDArray[np.int64], out: DeviceOutputs
    ) -> None:
        """Start episodes where `mask` is set, and report every environment."""
        with self._on_device():
            self._seeds.copy_(torch.from_numpy(seeds))
            chosen = None if mask is None else torch.from_numpy(mask).to(self.device)
            mask_pointer = 0 if chosen is None else chosen.data_ptr()
            outputs = self._outputs(out)
            self._batch.reset(mask_pointer, self._seeds.data_ptr(), outputs, self._stream())

    def step(self, actions: torch.Tensor, out: DeviceOutputs) -> None:
        """Advance every environment: int32 indices, or float32 ``[N, 4]`` joysticks.

        Indices are ``[N]``, or with several players ``[N, players]``.

        Raises what kernels of earlier steps have reported.
        """
        self.check_faults()
        self.take_news()
        address = actions.data_ptr()
        indices, joysticks = (0, address) if self._is_joystick else (address, 0)
        with self._on_device():
            outputs, faults = self._outputs(out), self._faults.data_ptr()
            self._batch.step(indices, joysticks, outputs, faults, self._stream())

    def decorrelate(self, max_steps: int, seed: int, out: DeviceOutputs) -> None:
        """Play a random number of random steps in each environment."""
        with self._on_device():
            self._batch.decorrelate(max_steps, seed, self._faults.data_ptr(), self._stream())
        self.observe(out)

    def observe(self, out: DeviceOutputs) -> None:
        """Report every environment as it is."""
        with self._on_device():
            self._batch.observe(self._outputs(out), self._stream())

    def get_state(self, indices: NDArray[np.int64]) -> torch.Tensor:
        """Snapshots of some environments, uint8 ``[n, state_size]``."""
        n = len(indices)
        with self._on_device():
            states = torch.empty((n, self.state_size), dtype=torch.uint8, device=self.device)
            if n:
                chosen = torch.from_numpy(indices).to(self.device)
                self._batch.gather_snapshots(
                    chosen.data_ptr(), n, states.data_ptr(), self._stream()
                )
            return states

    def set_state(
        self, states: NDArray[np.uint8] | torch.Tensor, indices: NDArray[np.int64]
    ) -> None:
        """Restore snapshots, or raise an `InvalidStateError` and change nothing."""
        if not len(indices):
            return
        with self._on_device():
            states = torch.as_tensor(states).to(self.device).contiguous()
            chosen = torch.from_numpy(indices).to(self.device)
            errors = torch.empty(len(indices), dtype=torch.uint8, device=self.device)
            arguments = (chosen.data_ptr(), len(indices), states.data_ptr())
            self._batch.check_snapshots(*arguments, errors.data_ptr(), self._stream())
            for row, error in enumerate(errors.cpu().tolist()):
                if error:
                    index = int(indices[row])
                    game = self._plan.games[self._plan.game_index[index]].game_id
                    text = self._native.snapshot_error_text(error, index, game)
                    raise InvalidStateError(f"states[{row}]: {text}")
            self._batch.scatter_snapshots(*arguments, self._stream())

    def screens(self, kind: str, indices: NDArray[np.int64]) -> torch.Tensor:
        """Full-size screens, uint8 ``[n, H, 160]`` or ``[n, H, 160, 3]``."""
        games = [self._plan.games[game] for game in self._plan.game_index[indices]]
        heights = {game.screen_height for game in games}
        if len(heights) > 1:
            raise InvalidArgumentError(
                "indices name environments with screens of different heights"
            )
        height = heights.pop() if heights else 0
        with self._on_device():
            shape = (len(indices), height, _core.SCREEN_WIDTH)
            levels = torch.empty(shape, dtype=torch.uint8, device=self.device)
            if len(indices):
                chosen = torch.from_numpy(indices).to(self.device)
                screens = (levels.data_ptr(), height * _core.SCREEN_WIDTH)
                self._batch.draw_screens(chosen.data_ptr(), len(indices), *screens, self._stream())
            if kind == "index":
                return levels
            palettes = {name: torch.from_numpy(_core.palette(name)) for name in ("NTSC", "PAL")}
            table = torch.stack([palettes[game.format] for game in games])
            table = table[..., 3] if kind == "gray" else table[..., :3]
            rows = torch.arange(len(indices), device=self.device)[:, None, None]
            return table.to(self.device)[rows, levels.long()]

    def ram(self) -> torch.Tensor:
        """Live RAM, uint8 ``[N, 128]``."""
        stride, offset, *_ = self._batch.live
        return self._memory.as_strided((self._num_envs, _core.RAM_BYTES), (stride, 1), offset)

    def objects(self) -> torch.Tensor:
        """Objects as they are, int16 ``[N, K, 6]``, where the plan has tables of them."""
        num_rows = self._plan.object_rows
        shape = (self._num_envs, num_rows, len(OBJECT_COLUMNS))
        with self._on_device():
            rows = torch.empty(shape, dtype=torch.int16, device=self.device)
            self._batch.write_objects(num_rows, rows.data_ptr(), self._stream())
        return rows

    def lives(self) -> torch.Tensor:
        """Live number of lives, int32 ``[N]``; with several players ``[N, players]``."""
        num_players = self._plan.num_players
        return self._live_int32(self._batch.live[2], *[num_players] if num_players > 1 else [])

    def episode_frames(self) -> torch.Tensor:
        """Live frame count of the episode, int32 ``[N]``."""
        return self._live_int32(self._batch.live[3])

    @property
    def is_compiling(self) -> bool:
        """Whether a step to come may load a kernel that was compiled for the game."""
        return self._translation is not None

    @property
    def running_kernel(self) -> RunningKernel:
        """The kernel that the next step launches, unless a compiled one becomes ready."""
        name = "compiled" if self._batch.has_program else "interpreter"
        return RunningKernel(name, *dataclasses.astuple(self._geometry))

    def close(self) -> None:
        """Give the device memory back to torch; no error, even where a kernel has failed."""
        if self.device.type == "cuda":
            with suppress(RuntimeError):  # of that kernel
                torch.cuda.synchronize(self.device)
        self._streams.clear()
        self._translation = None
        with suppress(RuntimeError), self._on_device():
            self._batch.close()
        del self._memory, self._reserve, self._batch

    def __del__(self) -> None:
        """Without `close`: let no stream get the memory while kernels may be using it."""
        try:
            if self._streams:
                _faults_in_use.append(self._faults)
            for stream in self._streams:
                self._home.wait_stream(stream)
        except Exception:  # half made, a device that has failed, or the end of the process
            return

    # --- Inside -----------------------------------------------------------------------------------

    def check_faults(self) -> None:
        """Raise what kernels have reported so far; does not wait for them."""
        word = int(self._fault_word[0])
        if not word:
            return
        self._fault_word[0] = 0
        is_action = word & self._native.FAULT_ACTION
        text = self._native.fault_text(word, len(self._plan.action_set))
        raise ActionRangeError(text) if is_action else NotResetError(text)

    def take_news(self) -> None:
        """Load the kernel that has been compiled for the game since the last call."""
        if self._translation is not None and self._translation.has_news:
            self._take_kernel(self._translation)

    def xla_target(self) -> _cuda.XlaTarget:
        """Let calls of XLA name this batch, see ``csrc/bindings/bind_cuda_xla.cpp``."""
        target: _cuda.XlaTarget = self._native.XlaTarget(
            batch=self._batch,
            faults=self._faults.data_ptr(),
            num_actions=len(self._plan.action_set),
            device=self.device.index or 0,
        )
        return target

    @property
    def native(self) -> ModuleType:
        """The module ``cule._cuda``, whose ``xla_handlers`` are the calls for `xla_target`."""
        return self._native

    @property
    def has_reset(self) -> bool:
        """Whether the environments have episodes, which a call of XLA may have begun."""
        return bool(self._batch.has_reset)

    def load_program(self, code: bytes) -> None:
        """Let a compiled kernel (`cule.envs.translation`) run the steps of its game from now on."""
        games = len(self._plan.games)
        if games > 1:
            raise InvalidArgumentError(
                f"kernel is 'compiled' for a batch of {games} games; it must be of one game"
            )
        with self._on_device():
            self._batch.load_program(code)

    def _may_compile(self, kernel: str) -> bool:
        """Whether there may be a compiled kernel: it is for one game and one player."""
        is_one = len(self._plan.games) == 1 and self._plan.num_players == 1
        return is_one and kernel != "interpreter" and self.device.type == "cuda"

    def _choose_kernel(self, kernel: str, geometry: Geometry) -> None:
        """Load the compiled kernel if it is on disk; otherwise compile it in the background."""
        if not self._may_compile(kernel):
            return
        major, minor = torch.cuda.get_device_capability(self.device)
        try:
            capability = 10 * major + minor
            translation = Translation(self._plan.games[0], geometry.lanes_per_warp, capability)
        except MissingCompilerError:
            if kernel == "compiled":
                raise
            return
        self._translation = translation
        if translation.has_news:
            self._take_kernel(translation)

    def _take_kernel(self, translation: Translation) -> None:
        """Load what has been compiled; what cannot be loaded leaves the kernel before it."""
        if torch.cuda.is_current_stream_capturing():
            return
        if translation.is_done:  # check first: `take` may race with the last kernel
            self._translation = None
        code = translation.take()
        if code is not None:
            try:
                self.load_program(code)
            except DeviceError as error:
                translation.reject(error)
                self._translation = translation

    def _allocate(self, local_bytes: int, results: int) -> tuple[int, int, int]:
        """Make `_memory` and `_reserve`, if they fit; addresses of batch, pool and reserve.

        Args:
            local_bytes: Local memory of kernels, which is taken already.
            results: Bytes of an environment in the results of a step.
        """
        batch, short = self._batch, short_frame_envs(self._plan)
        free = free_device_bytes(self.device)
        room = free // FREE_PART_FOR_SLOTS // (batch.slot_bytes + 4)
        batch.set_pool_slots(pool_slots(self._num_envs, short, room))
        estimate = MemoryEstimate(
            num_envs=self._num_envs,
            short_frame_envs=short,
            room=room,
            batch_bytes=batch.bytes,
            console_bytes=batch.console_bytes,
            slot_bytes=batch.slot_bytes,
            results_bytes=results,
        )
        refusal = (
            f"num_envs is {self._num_envs}: {estimate.needed_bytes:,} bytes are needed on "
            f"{self.device}, {estimate.env_bytes:,} for each environment ({self.console_bytes:,} "
            f"of state, {STEPS_ALIVE * results:,} of the results of {STEPS_ALIVE} steps) and "
            f"{estimate.pool_bytes:,} for pictures that cannot stay logs, and {free:,} are free; "
            f"local memory of kernels takes {local_bytes:,} already; about "
            f"{estimate.fit(free):,} environments fit"
        )
        if estimate.needed_bytes > free:
            raise OutOfDeviceMemoryError(refusal)
        try:
            size = batch.bytes + batch.pool_bytes
            self._memory = torch.zeros(size, dtype=torch.uint8, device=self.device)
        except torch.OutOfMemoryError:  # free, but in pieces
            raise OutOfDeviceMemoryError(f"{refusal}, but the memory is in pieces") from None
        most_without = max(room, LEAST_SLOTS)
        self._reserve = make_reserve(
            self._native, batch.reserve_bytes, self._num_envs, most_without
        )
        start = self._memory.data_ptr()
        reserve = 0 if self._reserve is None else self._reserve.address
        return start, start + batch.bytes, reserve

    def _live_int32(self, offset: int, *inner: int) -> torch.Tensor:
        words = self._memory.view(torch.int32)
        strides = (self._batch.live[0] // 4, *[1] * len(inner))
        return words.as_strided((self._num_envs, *inner), strides, offset // 4)

    def _stream(self) -> int:
        if self.device.type != "cuda":
            return 0
        stream = torch.cuda.current_stream(self.device)
        self._streams.add(stream)
        return int(stream.cuda_stream)

    def _on_device(self) -> AbstractContextManager[None]:
        return device_errors(self.device)

    def _outputs(self, out: DeviceOutputs) -> _cuda.Outputs:
        final_obs, final_ints = out.final_obs, out.final_ints
        outputs: _cuda.Outputs = self._native.Outputs(
            obs=out.obs.data_ptr(),
            obs_stride=out.obs.stride(0),
            ints=out.ints.data_ptr(),
            flags=out.flags.data_ptr(),
            width=self._num_envs,
            final_obs=0 if final_obs is None else final_obs.data_ptr(),
            final_obs_stride=0 if final_obs is None else final_obs.stride(0),
            final_ints=0 if final_ints is None else final_ints.data_ptr(),
            stacked=out.stacked,
        )
        return outputs
