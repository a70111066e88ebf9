"""The multi-batch schedule of CuLE: when to update, and on which environments."""

from __future__ import annotations

from fractions import Fraction

from cule.errors import InvalidArgumentError, shown


class MultiBatchSchedule:
    """Selects the fixed batch of environments for each update.

    N environments form B contiguous batches of N / B. All environments step together; from step T
    on, every `steps_per_update` steps one update uses the last T steps of the next batch. With
    B = 1 and `steps_per_update` = T this is on-policy A2C.

    Example:
        >>> MultiBatchSchedule(1200, num_batches=20, num_steps=20, steps_per_update=1).due(21)
        [slice(60, 120, None)]

    Attributes:
        batch_envs: Environments of a batch.
        uses_per_transition: How often updates use each step; below 1, some steps are never used.
    """

    def __init__(
        self, num_envs: int, *, num_batches: int, num_steps: int, steps_per_update: float
    ) -> None:
        """Create a schedule.

        Args:
            num_envs: Environments N.
            num_batches: Batches B; it divides N.
            num_steps: Steps T of a rollout.
            steps_per_update: A whole number of steps, or 1/U for U updates after every step.

        Raises:
            InvalidArgumentError: num_batches or steps_per_update is not allowed.
        """
        if num_batches < 1 or num_envs % num_batches:
            raise InvalidArgumentError(
                f"num_batches is {num_batches}; it must divide num_envs, {num_envs}"
            )
        try:
            exact = Fraction(steps_per_update).limit_denominator(10**6)
        except (TypeError, ValueError, OverflowError):
            exact = Fraction(0)
        if exact <= 0 or (exact.denominator != 1 and exact.numerator != 1):
            raise InvalidArgumentError(
                f"steps_per_update is {shown(steps_per_update)}; it must be a positive whole "
                "number, or 1 divided by one"
            )
        self.batch_envs = num_envs // num_batches
        self._num_batches, self._num_steps = num_batches, num_steps
        self._steps_between, self._updates_per_step = exact.numerator, exact.denominator
        self.uses_per_transition = float(num_steps / (exact * num_batches))

    def due(self, step: int) -> list[slice]:
        """The environments of each update after a number of completed steps; often empty."""
        since = step - self._num_steps
        if since < 0 or since % self._steps_between:
            return []
        first = since // self._steps_between * self._updates_per_step
        batches = [(first + k) % self._num_batches for k in range(self._updates_per_step)]
        return [slice(b * self.batch_envs, (b + 1) * self.batch_envs) for b in batches]

    def num_due(self, step: int) -> int:
        """Updates that were due after that many completed steps and all before."""
        since = step - self._num_steps
        return 0 if since < 0 else (since // self._steps_between + 1) * self._updates_per_step
