"""`PrioritizedReplay`: a ring of steps, sampled in proportion to their priorities."""

from __future__ import annotations

import torch
from torch import Tensor

from cule.replay.native import NativePriorities
from cule.replay.options import (
    PrioritizedOptions,
    ReplayOptions,
    check,
    check_options,
    check_range,
)
from cule.replay.priority_sums import BLOCK_LEAVES, Priorities
from cule.replay.steps import ArrayLike, Step, Steps, checked_ids, checked_tensor
from cule.replay.transitions import INVALID, Batch
from cule.replay.uniform import UniformReplay


class PrioritizedReplay(UniformReplay):
    """`UniformReplay` with proportional priorities (Schaul et al. 2015).

    Transition i is sampled with probability ``p_i ** alpha / sum of p ** alpha`` and weighted by
    ``(V * probability) ** -beta``, with V transitions, over the largest weight of the batch. p is
    the priority you give: for ``|error| + epsilon``, add the epsilon yourself.

    A transition gets its first priority, and can be sampled, once its n steps are complete: the
    largest priority so far (1 at first), or one that you give. Special priorities:

    * 0: never sampled;
    * infinite, or too large for the sums: counts as `largest_priority`;
    * negative or NaN: rejected; the priority is unchanged, and `num_rejected` counts it;
    * of a transition that has left the buffer, or of an ignored step: no effect.

    Example:
        >>> import torch
        >>> from cule.replay import PrioritizedOptions, PrioritizedReplay
        >>> options = PrioritizedOptions(capacity=4000, num_envs=2, obs_shape=(3,),
        ...                              obs_dtype=torch.float32, stack=1)
        >>> replay = PrioritizedReplay(options)
        >>> replay.start(torch.zeros(2, 3))
        >>> ended = torch.zeros(5, 2, dtype=torch.bool)
        >>> replay.append_block(frames=torch.ones(5, 2, 3), actions=torch.zeros(5, 2).long(),
        ...                     rewards=torch.ones(5, 2), terminated=ended)
        >>> batch = replay.sample(8)
        >>> replay.update_priorities(batch.ids, torch.rand(8) + 1e-6)

    Attributes:
        num_rejected: Rejected priorities so far; int64 scalar on the device.
        max_priority: Largest priority so far; float64 scalar on the device.
        largest_priority: Larger priorities count as this.
    """

    options: PrioritizedOptions

    def __init__(self, options: PrioritizedOptions) -> None:
        """Allocate the memory.

        Args:
            options: Sizes, shapes, types, device, exponents.

        Raises:
            InvalidArgumentError: The capacity is invalid.
            CapacityError: The buffer does not fit into the memory of the device.
        """
        check_options(options, PrioritizedOptions)
        super().__init__(options)
        num_leaves = self._ring.num_slots * options.num_envs
        self._priorities = Priorities(num_leaves, options, options.device)
        self.max_priority = self._priorities.max_priority
        self.num_rejected = self._priorities.num_rejected
        self.largest_priority = self._priorities.largest_priority
        self._followed = self._ring.host_head  # timestep that `_follow_head` has come to
        ring, self._native = self._ring.native, None
        if ring is not None:
            self._native = NativePriorities(ring, self._priorities, options)

    @staticmethod
    def _bytes_of(options: ReplayOptions, num_timesteps: int) -> dict[str, int]:
        blocks = -(-(num_timesteps + 1) * options.num_envs // BLOCK_LEAVES)
        parts = UniformReplay._bytes_of(options, num_timesteps)
        return {**parts, "priorities": (blocks * (BLOCK_LEAVES + 1) + 1) * 8}

    def start(self, frame: ArrayLike) -> None:
        """Start new episodes in all environments, as `UniformReplay.start`."""
        super().start(frame)
        self._follow_head(1, None)

    def append(self, actions: ArrayLike, step: Step, priorities: ArrayLike | None = None) -> None:
        """Store one step of all environments, as `UniformReplay.append`.

        Args:
            actions: As in `UniformReplay.append`.
            step: As in `UniformReplay.append`.
            priorities: First priorities of the transitions that this step completes (`newest_ids`);
                float ``[N]``. Default: the largest so far.
        """
        given = None
        if priorities is not None:
            given = self._checked_priorities(priorities, (self.options.num_envs,))[None]
        super().append(actions, step)
        self._follow_head(1, given)

    def _write(self, steps: Steps) -> None:
        super()._write(steps)
        self._follow_head(steps.rewards.shape[0], None)

    def _follow_head(self, num_steps: int, priorities: Tensor | None) -> None:
        """Enter new transitions and remove old ones after the head has advanced by T timesteps.

        `priorities` are the first ones, float64 ``[T, N]``; None for the largest so far. Timesteps
        of calls that Ctrl-C has ended before they came here get the largest so far.
        """
        behind, self._followed = self._ring.host_head - self._followed, self._ring.host_head
        if behind > num_steps:
            self._follow(min(behind, self.num_timesteps), None)
        self._follow(num_steps, priorities)

    def _follow(self, num_steps: int, priorities: Tensor | None) -> None:
        if priorities is not None:
            priorities = torch.where(self._is_complete(), priorities, 0.0)
        if self._native is not None:
            self._native.follow_head(num_steps, priorities)
            return
        ring, n, mine = self._ring, self.options.num_envs, self._priorities
        ages = torch.arange(num_steps - 1, -1, -1, device=self.options.device)
        heads = ring.head - ages
        old = heads - self.num_timesteps + self.options.stack - 1
        self._assign(old, torch.zeros((len(ages), n), dtype=torch.int64, device=ages.device))
        new = heads - self.options.n_step
        if priorities is None:
            priorities = self.max_priority.expand(len(ages), n)
        else:
            priorities = mine.accept(priorities, self.max_priority)
        is_invalid = (ring.flags.index_select(0, new % ring.num_slots) & INVALID) != 0
        self._assign(new, torch.where(is_invalid, 0, mine.masses(priorities)))

    def _is_complete(self) -> Tensor:
        """Whether the last timestep completed a transition that can be sampled; bool ``[1, N]``."""
        ring = self._ring
        timestep = (ring.head - self.options.n_step).view(1)
        flags = ring.flags.index_select(0, timestep % ring.num_slots)
        return (timestep >= 0) & ((flags & INVALID) == 0)

    def _assign(self, timesteps: Tensor, masses: Tensor) -> None:
        """Set the leaves of whole timesteps ``[T]`` to ``[T, N]``; skip negative timesteps."""
        n, sums = self.options.num_envs, self._priorities.sums
        base = (timesteps % self._ring.num_slots) * n
        index = base[:, None] + torch.arange(n, device=timesteps.device)
        index = torch.where(timesteps[:, None] >= 0, index, sums.waste).flatten()
        sums.leaves.index_copy_(0, index, masses.flatten())
        touched = torch.arange(n // BLOCK_LEAVES + 2, device=timesteps.device)
        if len(timesteps) * len(touched) >= len(sums.block_sums):
            sums.rebuild()
        else:
            sums.update_sums((base[:, None] // BLOCK_LEAVES + touched).flatten())

    def total_mass(self) -> Tensor:
        """Sum of ``p ** alpha`` over all transitions, in a fixed unit; int64 scalar on the device.

        To sample from several buffers as from one, choose each in proportion to this.
        """
        return self._priorities.sums.total()

    def newest_ids(self) -> Tensor:
        """Ids of the transitions that the last `append` completed; int64 ``[N]``."""
        timestep = self._ring.head - self.options.n_step
        n = self.options.num_envs
        return timestep * n + torch.arange(n, device=self.options.device)

    def update_priorities(self, ids: ArrayLike, priorities: ArrayLike) -> None:
        """Set the priorities of transitions.

        Args:
            ids: As `Batch.ids`; int64 ``[B]``. If an id occurs several times, its largest priority
                counts.
            priorities: New priorities before alpha; float ``[B]``. The class describes special
                values.

        Raises:
            InvalidArgumentError: Wrong shape or dtype; the buffer is unchanged.
        """
        native = self._native
        if native is not None and native.update(ids, priorities):
            return
        checked = checked_ids(ids, self.options.device)
        given = self._checked_priorities(priorities, tuple(checked.shape))
        if not len(checked):
            return
        if native is not None:
            is_done = native.update(checked.contiguous(), given.detach().contiguous())
            assert is_done
            return
        leaves = self._leaves_of(checked)
        oldest, _ = self._valid()
        is_live = self._is_valid(checked // self.options.num_envs, oldest)
        is_live = is_live & ((self._ring.flags.view(-1)[leaves] & INVALID) == 0)
        self._priorities.update(leaves, is_live, given)

    def _checked_priorities(self, priorities: ArrayLike, shape: tuple[int, ...]) -> Tensor:
        device = self.options.device
        return checked_tensor("priorities", priorities, shape, torch.float64, device)

    def sample(self, batch_size: int, beta: float | Tensor | None = None) -> Batch:
        """Sample transitions in proportion to their priorities, one from each B-th of the total.

        Args:
            batch_size: Transitions B.
            beta: Exponent of the importance weights; a scalar tensor on the device in CUDA graphs.
                Default: that of the options.

        Returns:
            The batch. If all priorities are 0, all weights are 0.

        Raises:
            InvalidArgumentError: batch_size is not a positive int, or beta is not in 0 ... 1.
            CapacityError: The batch does not fit into the free memory.
            NotReadyError: There is nothing to sample yet.
        """
        self._check_batch_size(batch_size)
        if beta is None:
            beta = self.options.beta
        else:
            self._check_beta(beta)
        if self._native is not None:
            return self._native.sample(self.generator, batch_size, beta)
        ids = self._ids_of(self._priorities.sample(self._uniform(batch_size)))
        return self._weighed(ids, beta)

    def _check_beta(self, beta: float | Tensor) -> None:
        """Raise InvalidArgumentError unless beta is allowed; graphs do not read its value."""
        device = self.options.device
        if not isinstance(beta, Tensor):
            check_range("beta", beta, 0.0, 1.0)
            return
        is_number = beta.dtype != torch.bool and not beta.is_complex()
        is_scalar = is_number and beta.shape == () and beta.device.type == device.type
        check("beta", beta, is_scalar, f"a scalar tensor on {device}")
        if self._native is not None:
            check_range("beta", float(beta.detach()), 0.0, 1.0)

    def sample_at(self, ids: ArrayLike) -> Batch:
        """Transitions by id, see `UniformReplay.sample_at`, with the weights of sampled ones."""
        checked = checked_ids(ids, self.options.device)
        self._check_batch_size(len(checked))
        if self._native is not None:
            return self._native.gather(checked, self.options.beta)
        return self._weighed(checked, self.options.beta)

    def _ids_of(self, leaves: Tensor) -> Tensor:
        """Ids of the transitions in leaves: those of the newest timestep of each slot."""
        n, num_slots, head = self.options.num_envs, self._ring.num_slots, self._ring.head
        slots = (leaves // n).clamp(max=num_slots - 1)
        return (head - (head - slots) % num_slots) * n + leaves % n

    def _leaves_of(self, ids: Tensor) -> Tensor:
        """Leaves of transitions: their cells."""
        n = self.options.num_envs
        return (ids // n % self._ring.num_slots) * n + ids % n

    def _weighed(self, ids: Tensor, beta: float | Tensor) -> Batch:
        batch, (_, num_valid) = self._gather(ids), self._valid()
        weights, probabilities = self._priorities.weigh(
            self._leaves_of(ids), num_valid, batch.weights > 0, beta
        )
        return batch._replace(weights=weights, probabilities=probabilities)

    def resync(self) -> None:
        """Update the host, as `UniformReplay.resync`."""
        super().resync()
        self._followed = self._ring.host_head

    def _restored(self) -> None:
        self.resync()
        self._priorities.sums.rebuild()

    def _most(self) -> dict[str, Tensor]:
        return self._priorities.most()

    def _tensors(self) -> dict[str, Tensor]:
        return {**super()._tensors(), **self._priorities.tensors()}
