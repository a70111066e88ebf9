"""`PrioritizedReplay`: a ring of steps, sampled in proportion to their priorities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cule.replay.native import NativePriorities
from cule.replay.options import PrioritizedOptions, check_range
from cule.replay.priority_sums import BLOCK_LEAVES, PrioritySums
from cule.replay.ring import ring_bytes
from cule.replay.steps import Step, Steps, checked_ids, checked_tensor
from cule.replay.transitions import INVALID, Batch
from cule.replay.uniform import UniformReplay


class PrioritizedReplay(UniformReplay):
    """`UniformReplay` with proportional priorities (Schaul et al. 2015).

    Transition i is drawn with probability ``p_i ** alpha / sum of p ** alpha`` and weighed with
    ``(V * probability) ** -beta``, V transitions, divided by the largest of the batch. p is the
    priority as given: callers who want ``|error| + epsilon`` add the epsilon. With a
    `uniform_mixture` of eta, probability is ``(1 - eta) * that + eta / V``.

    A transition gets its first priority, and can be drawn, once its n steps are there: the largest
    priority given so far (1 before any), or the caller's. Priorities:

    * 0: never drawn, but by the uniform part of a mixture;
    * infinite, or too large for the sums: as the largest that fits (`largest_priority`);
    * negative or NaN: refused, the priority stays as it was, `num_refused` counts it;
    * of a transition that has left the buffer, or was an ignored step: no effect.

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
        num_refused: Priorities refused so far; int64 scalar on the device.
        max_priority: Largest priority given so far; float64 scalar on the device.
    """

    options: PrioritizedOptions

    def __init__(self, options: PrioritizedOptions) -> None:
        """Allocate the memory.

        Args:
            options: Sizes, shapes, types, device, exponents.

        Raises:
            InvalidArgumentError: The capacity is none.
            CapacityError: It does not fit into the memory of the device.
        """
        super().__init__(options)
        num_leaves = self._ring.num_slots * options.num_envs
        self._sums = PrioritySums(num_leaves, options.device)
        self.max_priority = torch.ones((), dtype=torch.float64, device=options.device)
        self.num_refused = torch.zeros((), dtype=torch.int64, device=options.device)
        self._native: NativePriorities | None = None
        if self._ring.native is not None and self._sums.native is not None:
            self._native = NativePriorities(
                self._ring.native,
                self._sums.native,
                options,
                self.largest_priority,
                self.max_priority,
                self.num_refused,
            )

    @staticmethod
    def _bytes_of(options: Any, num_rows: int) -> dict[str, int]:
        blocks = -(-(num_rows + 1) * options.num_envs // BLOCK_LEAVES)
        parts = ring_bytes(num_rows, options)
        return {**parts, "priorities": (blocks * (BLOCK_LEAVES + 1) + 1) * 8}

    @property
    def largest_priority(self) -> float:
        """Priorities above this count as this; with alpha 0 there is no such limit."""
        return self._sums.largest_priority(self.options.alpha)

    # --- Writing --------------------------------------------------------------------------------

    def start(self, frame: Any) -> None:
        """As `UniformReplay.start`."""
        super().start(frame)
        self._follow_head(1, None)

    def append(self, actions: Any, step: Step, priorities: Any = None) -> None:
        """Store one step of all environments, as `UniformReplay.append`.

        Args:
            actions: As there.
            step: As there.
            priorities: First priorities of the transitions whose n steps this step completes, those
                of `newest_ids` afterwards; float ``[N]``. By default the largest so far.
        """
        given = None
        if priorities is not None:
            given = self._as_priorities(priorities, (self.options.num_envs,))[None]
        super().append(actions, step)
        self._follow_head(1, given)

    def _write(self, steps: Steps) -> None:
        super()._write(steps)
        self._follow_head(steps.rewards.shape[0], None)

    def _follow_head(self, num_steps: int, priorities: Tensor | None) -> None:
        """Let new rows in and old rows out after the head has moved.

        Args:
            num_steps: By how many rows, T.
            priorities: First priorities, float64 ``[T, N]``, or None for the largest so far.
        """
        if self._native is not None:
            self._native.follow_head(num_steps, priorities)
            return
        ring, n = self._ring, self.options.num_envs
        ages = torch.arange(num_steps - 1, -1, -1, device=self.options.device)
        heads = ring.head - ages
        old = heads - self.num_rows + self.options.stack - 1
        self._assign_rows(old, torch.zeros((len(ages), n), dtype=torch.int64, device=ages.device))
        new = heads - self.options.n_step
        if priorities is None:
            priorities = self.max_priority.expand(len(ages), n)
        else:
            priorities = self._accepted(priorities, self.max_priority)
        invalid = (ring.flags.index_select(0, new % ring.num_slots) & INVALID) != 0
        units = self._sums.units(priorities, self.options.alpha)
        self._assign_rows(new, torch.where(invalid, 0, units))

    def _assign_rows(self, rows: Tensor, units: Tensor) -> None:
        """Set the leaves of whole rows; rows before the first are left out."""
        n, sums = self.options.num_envs, self._sums
        base = (rows % self._ring.num_slots) * n
        index = base[:, None] + torch.arange(n, device=rows.device)
        index = torch.where(rows[:, None] >= 0, index, sums.waste).flatten()
        sums.leaves.index_copy_(0, index, units.flatten())
        touched = torch.arange(n // BLOCK_LEAVES + 2, device=rows.device)
        if len(rows) * len(touched) >= len(sums.block_sums):
            sums.rebuild()
        else:
            sums.resum((base[:, None] // BLOCK_LEAVES + touched).flatten())

    def newest_ids(self) -> Tensor:
        """Transitions that the last `append` let in; int64 ``[N]``."""
        row = self._ring.head - self.options.n_step
        n = self.options.num_envs
        return row * n + torch.arange(n, device=self.options.device)

    def update_priorities(self, ids: Any, priorities: Any) -> None:
        """Set the priorities of some transitions.

        Args:
            ids: As in `Batch.ids`; int64 ``[B]``. Of several values for one the largest counts.
            priorities: New priorities before alpha; float ``[B]``. See the class for odd values.

        Raises:
            InvalidArgumentError: Wrong shape or type; nothing has changed.
        """
        native = self._native
        if native is not None and native.update(ids, priorities):
            return
        checked = checked_ids(ids, self.options.device)
        given = self._as_priorities(priorities, tuple(checked.shape))
        if not len(checked):
            return
        if native is not None:
            was_done = native.update(checked.contiguous(), given.detach().contiguous())
            assert was_done
            return
        n, ring, sums = self.options.num_envs, self._ring, self._sums
        rows = checked // n
        oldest, _ = self._valid()
        index = (rows % ring.num_slots) * n + checked % n
        is_live = (rows >= oldest) & (rows <= ring.head - self.options.n_step)
        is_live = is_live & ((ring.flags.view(-1)[index] & INVALID) == 0)
        accepted = self._accepted(given, torch.full_like(self.max_priority, -1.0))
        index = torch.where(is_live & (accepted >= 0), index, sums.waste)
        sums.assign(index, sums.units(accepted, self.options.alpha))

    def _as_priorities(self, priorities: Any, shape: tuple[int, ...]) -> Tensor:
        device = self.options.device
        return checked_tensor("priorities", priorities, shape, torch.float64, device)

    def _accepted(self, priorities: Tensor, instead: Tensor) -> Tensor:
        """Priorities with something else in place of refused ones; counts them and the largest."""
        refused = ~(priorities >= 0)  # true of NaN as well
        self.num_refused.add_(refused.sum())
        kept = torch.where(refused, instead, priorities)
        largest = kept.clamp(max=self.largest_priority).amax()
        self.max_priority.copy_(torch.maximum(self.max_priority, largest))
        return kept

    # --- Reading --------------------------------------------------------------------------------

    def sample(self, batch_size: int, beta: float | Tensor | None = None) -> Batch:
        """Draw transitions in proportion to their priorities, one from each B-th of the total.

        Args:
            batch_size: Transitions B.
            beta: Exponent of the importance weights; a scalar tensor on the device in CUDA graphs.
                By default that of the options.

        Returns:
            The batch. If all priorities are 0, all weights are 0; in a mixture, all draws are
            uniform then.

        Raises:
            InvalidArgumentError: batch_size is no positive int, or beta not within 0 ... 1.
            NotReadyError: There is nothing to sample yet.
        """
        self._check_batch_size(batch_size)
        if beta is None:
            beta = self.options.beta
        elif not isinstance(beta, Tensor):
            check_range("beta", beta, 0.0, 1.0)
        if self._native is not None:
            return self._native.sample(self.generator, batch_size, beta)
        fractions = torch.arange(batch_size, device=self.options.device) + self._uniform(batch_size)
        ids = self._ids_of(self._sums.draw(fractions / batch_size))
        if self.options.uniform_mixture:
            is_uniform = self._uniform(batch_size) < self._uniform_share()
            ids = torch.where(is_uniform, self._uniform_ids(batch_size), ids)
        return self._weighed(ids, beta)

    def sample_at(self, ids: Any) -> Batch:
        """As `UniformReplay.sample_at`, weighed as if the ids had been drawn."""
        checked = checked_ids(ids, self.options.device)
        self._check_batch_size(len(checked))
        if self._native is not None:
            return self._native.batch(checked, self.options.beta)
        return self._weighed(checked, self.options.beta)

    def _uniform_share(self) -> Tensor:
        """Probability that a draw is uniform; of a mixture 1 where all priorities are 0."""
        is_empty = (self._sums.total() == 0).to(torch.float64)
        return is_empty.clamp(min=self.options.uniform_mixture)

    def _ids_of(self, leaves: Tensor) -> Tensor:
        """Ids of the transitions in some leaves: the newest row of each slot."""
        n, num_slots, head = self.options.num_envs, self._ring.num_slots, self._ring.head
        slots = (leaves // n).clamp(max=num_slots - 1)
        return (head - (head - slots) % num_slots) * n + leaves % n

    def _weighed(self, ids: Tensor, beta: float | Tensor) -> Batch:
        batch, sums, n = self._batch(ids), self._sums, self.options.num_envs
        units = sums.leaves[(ids // n % self._ring.num_slots) * n + ids % n]
        total = sums.total().clamp(min=1)
        probabilities = units.to(torch.float64) / total.to(torch.float64)
        _, count = self._valid()
        if self.options.uniform_mixture:
            share = self._uniform_share()
            probabilities = (1.0 - share) * probabilities + share / count
        weights = (count * probabilities).clamp(min=torch.finfo(torch.float64).tiny).pow(-beta)
        weights = torch.where((probabilities > 0) & (batch.weights > 0), weights, 0.0)
        largest = weights.amax().clamp(min=torch.finfo(torch.float64).tiny)
        return batch._replace(
            weights=(weights / largest).to(torch.float32),
            probabilities=probabilities.to(torch.float32),
        )

    # --- Saving ---------------------------------------------------------------------------------

    def _restored(self) -> None:
        super()._restored()
        self._sums.rebuild()

    def _tensors(self) -> dict[str, Tensor]:
        sums = {"leaves": self._sums.leaves, "block_sums": self._sums.block_sums}
        others = {"max_priority": self.max_priority, "num_refused": self.num_refused}
        return {**super()._tensors(), **sums, **others}
