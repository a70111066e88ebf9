"""`ClusterGroup`: actors and replay shards on a Ray cluster, seen from the learner."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cule.agents.cluster.acting import Played, Player
from cule.agents.cluster.connection import (
    check_nodes,
    check_resources,
    connect,
    disconnect,
    import_ray,
)
from cule.agents.cluster.replay import ClusterReplay
from cule.agents.cluster.shard import RING_BITS, Shard, Stored
from cule.agents.parts.envs import EpisodeStatistics
from cule.errors import CuleError, warn

if TYPE_CHECKING:
    from cule.agents.apex import ApexDQN

#: Blocks of an actor that are requested, in transit, or stored and not yet learned for.
BLOCKS_AHEAD = 3

#: Actors that may die one after the other before their first block, until the run gives up.
MAX_FAILURES = 3

#: Seconds between two warnings that nothing arrives.
SILENCE_S = 60.0


class ActorError(CuleError, RuntimeError):
    """The actors cannot play."""


@dataclass
class _Actor:
    """An actor of the cluster, as the learner sees it."""

    index: int
    handle: Any
    playing: deque[tuple[Any, Any]] = field(default_factory=deque)  # (Played, Block) of requests
    inserting: tuple[Any, Played] | None = None  # confirmation of the shard
    held: int = 0  # confirmed blocks that the learner has not learned for
    begins: bool = True  # the next block begins new episodes
    number: int = 0  # of the next block in the ring
    synced: int = 0  # steps of each environment since the last weights
    failures: int = 0
    last: Played | None = None


class ClusterGroup:
    """The actors and shards; a context that starts and ends them.

    Attributes:
        replay: The memory that they fill.
        num_arrived: Steps that shards have confirmed.
        num_lost: Steps that were requested and did not arrive: the requests of dead actors and
            shards.
        num_dropped: Transitions that had arrived and were in shards that died.
    """

    def __init__(self, agent: ApexDQN) -> None:
        """Connect to the cluster and check it; nothing starts before the context is entered."""
        config = self.config = agent.config
        self.agent, self.ray = agent, import_ray()
        self._must_disconnect = connect(config.cluster)
        try:
            self._check(agent)
        except BaseException:
            self._disconnect()
            raise
        exceptions = self.ray.exceptions
        self.gone: tuple[type[Exception], ...] = (
            exceptions.RayActorError,
            exceptions.ObjectLostError,
        )
        self.replay = ClusterReplay(self, agent.device)
        self.block_steps = max(-(-config.block_size // config.num_envs), 1)
        self.block_transitions = self.block_steps * config.num_envs
        self.num_arrived = self.num_lost = self.num_dropped = 0
        self._told = 0  # of num_arrived, by wait_for_transitions
        self._begun = 0  # streams of episodes, for their seeds
        self._silent_since = time.monotonic()
        self._episodes = torch.zeros(EpisodeStatistics.NUM_SUMS, dtype=torch.float64)
        self._network = copy.deepcopy(agent.network).cpu().requires_grad_(False)
        self._weights: tuple[Any, ...] = ()  # a reference to a vector, and its version
        self._gauges: dict[str, Any] = {}
        self.shards: list[Any] = []
        self.actors: list[_Actor] = []

    def _check(self, agent: ApexDQN) -> None:
        config = self.config
        is_ours = agent.env_factory is None
        games = [name.strip() for name in config.game.split(",")]
        files = [path for path in (config.rom_path, config.rules) if path]
        check_nodes(games if is_ours and not config.rom_path else [], files if is_ours else [])
        self.actor_resources: dict[str, float] = {"CPU": max(config.env_threads, 1)}
        if config.actor_gpus:
            self.actor_resources["GPU"] = config.actor_gpus
        each = -(-config.memory // config.num_actors)
        self.ring_options: dict[str, Any] = {
            **agent.memory_options(),
            "num_envs": config.num_envs,
            "capacity": each,
            "device": "cpu",
        }
        rings = -(-config.num_actors // config.replay_shards)
        frame_bytes = agent.setup.obs_dtype.itemsize * math.prod(self.ring_options["obs_shape"])
        # Actions, rewards, flags and sums of a transition take 30 bytes.
        size = rings * each * (frame_bytes + 30)
        self.shard_resources: dict[str, float] = {"CPU": 1, "memory": float(size)}
        check_resources(
            [
                *[self.shard_resources] * config.replay_shards,
                *[self.actor_resources] * config.num_actors,
            ],
            f"{config.num_actors} actors and {config.replay_shards} replay shards",
        )

    def __enter__(self) -> ClusterGroup:
        """Start shards and actors, and wait until all are made."""
        config = self.config
        try:
            self.first_rings = [i * config.num_actors for i in range(config.replay_shards)]
            self.shards = [self._make_shard(i) for i in range(config.replay_shards)]
            self.stored = [Stored(0, 1.0, 0)] * config.replay_shards
            self.actors = [_Actor(i, self._make_player(i)) for i in range(config.num_actors)]
            for part in (*self.shards, *(actor.handle for actor in self.actors)):
                self.result(part.ready.remote())
        except BaseException as error:
            self.__exit__()
            if isinstance(error, self.gone):
                raise ActorError(f"a part of the cluster does not start: {error}") from None
            raise
        self.send_weights(self.agent.network)
        self.request_blocks()
        return self

    def __exit__(self, *_: object) -> None:
        """End all actors and shards, and disconnect if this connected."""
        for part in (*self.shards, *(actor.handle for actor in self.actors)):
            with contextlib.suppress(Exception):  # it may have died
                self.ray.kill(part)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._must_disconnect:
            disconnect()

    def result(self, reference: Any) -> Any:
        """The value of a reference; errors of our code as they were raised.

        A part outlives the daemon of its node for a moment, in which Ray raises an OSError without
        a number in it ("Broken pipe"): it counts as dead.
        """
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, CuleError):
                raise cause from None
            if isinstance(cause, OSError) and cause.errno is None:
                raise self.ray.exceptions.RayActorError from error
            raise

    def _make_shard(self, index: int) -> Any:
        shards, actors = self.config.replay_shards, range(self.config.num_actors)
        remote = self.ray.remote(Shard).options(
            num_cpus=self.shard_resources["CPU"],
            memory=self.shard_resources["memory"],
            scheduling_strategy="SPREAD",
            # A block of a node that has just died must not hold up samples.
            allow_out_of_order_execution=True,
        )
        return remote.remote(self.ring_options, self.first_rings[index], actors[index::shards])

    def _make_player(self, index: int) -> Any:
        device = "cuda" if self.config.actor_gpus else "cpu"
        threads = max(self.config.env_threads, 1)
        config = dataclasses.replace(self.config, env_device=device, env_threads=threads)
        remote = self.ray.remote(Player).options(
            num_cpus=self.actor_resources["CPU"],
            num_gpus=config.actor_gpus,
            scheduling_strategy="SPREAD",
        )
        return remote.remote(config, index, self.agent.env_factory, self._network)

    # --- The learner's side -----------------------------------------------------------------------

    def send_weights(self, network: nn.Module) -> None:
        """Let the next blocks be played with the weights of now."""
        version = self.agent.updates
        if not self._weights or self._weights[1] != version:
            flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
            self._weights = self.ray.put(flat.float().cpu().numpy()), version

    def request_blocks(self) -> None:
        """Request further blocks: the learner has learned for all that have arrived."""
        for actor in self.actors:
            actor.held = 0
        self._request_blocks()

    def wait_for_transitions(self) -> int:
        """Wait until transitions arrive; return their number."""
        while self.num_arrived == self._told:
            self.pump(wait=True)
        new, self._told = self.num_arrived - self._told, self.num_arrived
        return new

    def new_statistics(self) -> Tensor:
        """Sums over episodes since the last call, as in `EpisodeStatistics`."""
        new, self._episodes = self._episodes, torch.zeros_like(self._episodes)
        return new

    def shards_of(self, ids: NDArray[np.int64]) -> Iterator[tuple[Any, NDArray[np.bool_]]]:
        """Shards with the mask of their ids; ids of shards that were replaced are left out."""
        numbers = (ids >> RING_BITS) // self.config.num_actors * self.config.num_actors
        for handle, first in zip(self.shards, self.first_rings, strict=True):
            mine = numbers == first
            if mine.any():
                yield handle, mine

    # --- Blocks -----------------------------------------------------------------------------------

    def _request_blocks(self) -> None:
        for actor in self.actors:
            pending = actor.inserting is not None
            while len(actor.playing) + pending + actor.held < BLOCKS_AHEAD:
                self._request_block(actor)

    def _request_block(self, actor: _Actor) -> None:
        seed = None
        weights: tuple[Any, ...] = ()
        if actor.begins:
            self._begun += 1
            seed = (self.agent.setup.env_seed(self.agent.steps) + 7919 * self._begun) % 2**30
        if actor.begins or actor.synced >= self.config.sync_steps:
            weights, actor.synced = self._weights, 0
        actor.begins = False
        actor.synced += self.block_steps
        play = actor.handle.play.options(num_returns=2)
        actor.playing.append(tuple(play.remote(self.block_steps, seed, *weights)))

    def pump(self, *, wait: bool = False) -> None:
        """Send played blocks to shards and count confirmed ones; `wait` for one of either."""
        watched: dict[Any, _Actor] = {}
        for actor in self.actors:
            if actor.inserting is not None:
                watched[actor.inserting[0]] = actor
            elif actor.playing:
                watched[actor.playing[0][0]] = actor
        ready, _ = self.ray.wait(
            list(watched), num_returns=1 if wait else len(watched), timeout=1.0 if wait else 0
        )
        for reference in ready:
            actor = watched[reference]
            if actor.inserting is not None and actor.inserting[0] == reference:
                self._confirm(actor, *actor.inserting)
            elif actor.playing and actor.playing[0][0] == reference:
                self._insert(actor)
        if ready:
            self._silent_since = time.monotonic()
            self._request_blocks()
        elif wait and time.monotonic() - self._silent_since > SILENCE_S:
            self._silent_since = time.monotonic()
            warn(
                f"no transitions have arrived for {SILENCE_S:.0f} s; actors or shards wait for "
                "resources of the cluster, see `ray status`",
                RuntimeWarning,
            )

    def _insert(self, actor: _Actor) -> None:
        """Send the oldest block of an actor to its shard."""
        played, block = actor.playing[0]
        try:
            result: Played = self.result(played)
        except self.gone as error:
            self._replace_actor(actor, error)
            return
        actor.playing.popleft()
        actor.last, actor.failures = result, 0
        index = actor.index % len(self.shards)
        ring = self.first_rings[index] + actor.index
        reply = self.shards[index].insert.remote(ring, actor.number, block)
        actor.inserting = reply, result
        actor.number += 1

    def _confirm(self, actor: _Actor, reply: Any, played: Played) -> None:
        """Count a block that has been stored."""
        try:
            stored: Stored = self.result(reply)
        except self.ray.exceptions.RayActorError:
            self.replace_shard(actor.index % len(self.shards))
            return
        except self.ray.exceptions.ObjectLostError as error:
            actor.inserting, actor.number = None, actor.number - 1
            self._lose(f"block {actor.number} of actor {actor.index}", 1)
            self._replace_actor(actor, error)
            return
        actor.inserting = None
        actor.held += 1
        # Confirmations of several actors arrive in any order.
        index = actor.index % len(self.shards)
        self.stored[index] = max(self.stored[index], stored, key=lambda found: found.num_stored)
        self.num_arrived += played.num_steps
        self._episodes += torch.tensor(played.episodes, dtype=torch.float64)

    # --- Losses -----------------------------------------------------------------------------------

    def _lose(self, what: str, num_blocks: int) -> None:
        """Count requested blocks that will not arrive, and say so."""
        steps = num_blocks * self.block_transitions
        self.num_lost += steps
        warn(f"{what} lost: {steps} steps that had not arrived", RuntimeWarning)

    def _replace_actor(self, actor: _Actor, error: Exception) -> None:
        """Replace an actor whose node or process has died; its shard keeps what has arrived."""
        actor.failures += 1
        if actor.failures > MAX_FAILURES:
            raise ActorError(f"actor {actor.index} has died {actor.failures} times: {error}")
        self._lose(f"actor {actor.index}", len(actor.playing))
        actor.playing.clear()
        with contextlib.suppress(Exception):  # it may be alive but unreachable
            self.ray.kill(actor.handle)
        actor.handle, actor.begins = self._make_player(actor.index), True

    def replace_shard(self, index: int) -> None:
        """Replace a shard that has died by an empty one; its actors start new episodes."""
        self.num_dropped += self.stored[index].num_valid
        warn(
            f"replay shard {index} lost, with {self.stored[index].num_valid} stored transitions",
            RuntimeWarning,
        )
        with contextlib.suppress(Exception):
            self.ray.kill(self.shards[index])
        self.first_rings[index] = max(self.first_rings) + self.config.num_actors
        self.shards[index] = self._make_shard(index)
        self.stored[index] = Stored(0, 1.0, 0)
        for actor in self.actors[index :: len(self.shards)]:
            pending = actor.inserting is not None
            self._lose(f"blocks of actor {actor.index}", len(actor.playing) + pending)
            actor.playing.clear()
            actor.inserting, actor.number, actor.begins = None, 0, True
            actor.held = 0
        self._request_blocks()  # without others nothing else would arrive

    # --- Metrics ----------------------------------------------------------------------------------

    def gauges(self) -> dict[str, float]:
        """Numbers of all parts for a row of progress; Ray's metrics get them as well."""
        config, updates = self.config, self.agent.updates
        last = [(actor.index, actor.last) for actor in self.actors if actor.last is not None]
        speeds = {i: p.num_steps * config.frameskip / max(p.seconds, 1e-9) for i, p in last}
        ages = [updates - played.version for _, played in last]
        learned = updates * config.batch_size
        found = {
            "actors_playing": float(sum(actor.last is not None for actor in self.actors)),
            "actor_frames_per_s": sum(speeds.values()) / max(len(speeds), 1),
            "block_bytes": float(max((played.num_bytes for _, played in last), default=0)),
            "blocks_playing": float(sum(len(actor.playing) for actor in self.actors)),
            "blocks_inserting": float(sum(a.inserting is not None for a in self.actors)),
            "batches_ready": float(self.replay.num_ready),
            "weights_age": sum(ages) / max(len(ages), 1),
            "replay_ratio": learned / max(self.agent.steps, 1),
            "steps_lost": float(self.num_lost),
            "transitions_dropped": float(self.num_dropped),
        }
        for name, value in found.items():
            self._export(name, value)
        for index, speed in speeds.items():
            self._export("actor_speed", speed, f"actor {index}")
        for index, stored in enumerate(self.stored):
            self._export("shard_transitions", stored.num_valid, f"shard {index}")
        return found

    def _export(self, name: str, value: float, part: str = "learner") -> None:
        if name not in self._gauges:
            gauge = self.ray.util.metrics.Gauge(f"cule_{name}", tag_keys=("part",))
            self._gauges[name] = gauge
        self._gauges[name].set(value, tags={"part": part})
