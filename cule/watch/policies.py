"""Policies of the environments that no viewer plays: random actions, or those of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cule.envs import AtariVectorEnv, MultiAgentVectorEnv
from cule.envs.checks import to_numpy
from cule.envs.options import MAX_ENVS
from cule.envs.vector_env import BatchEnv
from cule.errors import InvalidArgumentError, shown
from cule.games import game_id_of
from cule.option_fields import Bounds, Seed, positional, validate

#: Any: arrays or tensors, depending on the environment; this package does not import torch.
Observations: TypeAlias = Any

#: The protocol of `cule eval` that a checkpoint plays by default.
DEFAULT_PROTOCOL = "noop"

#: Marks options of only one kind of play.
ALONE: Mapping[str, str] = MappingProxyType({"group": "without a CHECKPOINT"})
TRAINED: Mapping[str, str] = MappingProxyType({"group": "with a CHECKPOINT"})


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Options of a command that plays a checkpoint or, without one, random actions."""

    checkpoint: Path | None = positional("CHECKPOINT", None)  # noqa: RUF009
    """Policy: NAME.pt, weights NAME.safetensors, a run's folder, or zoo:NAME; default: random
    actions."""

    game: str | None = None
    """Game; default: that of the checkpoint."""

    rom_path: str | None = None
    """ROM file of a game of your own."""

    rules: str | None = None
    """TOML file with the rules of a game of your own."""

    num_envs: Annotated[int, Bounds(1, MAX_ENVS)] = 8
    """Environments."""

    seed: Seed = 0
    """Seed of the first environment; the others count up."""

    device: str = "cpu"
    """Device of environments and network."""

    mode: int | None = field(default=None, metadata=ALONE)
    """Game mode; default: that of the game."""

    difficulty: int | None = field(default=None, metadata=ALONE)
    """Difficulty switches; default: those of the game."""

    action_delay: int | None = field(default=None, metadata=ALONE)
    """Emulated frames between an action and its effect; default: none."""

    modifications: str | None = field(default=None, metadata=ALONE)
    """Modifications of the game, as ``cule mods list`` names them; default: none."""

    protocol: str | None = field(default=None, metadata=TRAINED)
    """Protocol as in cule eval: noop, sticky, machado or as-trained; default: noop."""

    agent: str | None = field(default=None, metadata=TRAINED)
    """MODULE:CLASS of an agent of your own, with its network."""

    greedy: bool = field(default=False, metadata=TRAINED)
    """Choose the best actions."""

    def __post_init__(self) -> None:
        """Refuse options that need a checkpoint, or that have no effect with one.

        Raises:
            InvalidArgumentError: There is one, or a value is outside its range.
        """
        validate(self)
        misplaced = TRAINED if self.checkpoint is None else ALONE
        for item in fields(self):
            value = getattr(self, item.name)
            if item.metadata == misplaced and value is not None and value is not False:
                raise InvalidArgumentError(
                    f"{item.name} is {shown(value)}; it must be used {misplaced['group']}"
                )


class Policy(NamedTuple):
    """Chooses the actions of all environments."""

    title: str  # for the page
    act: Callable[[Observations], NDArray[np.generic]]  # actions on the newest observations
    begin: Callable[[NDArray[np.bool_]], None] = lambda _: None  # episodes begin in environments


def open_random(options: PlayOptions, num_players: int = 1) -> tuple[BatchEnv, Policy]:
    """Environments for people: every frame, and all actions."""
    game, num_envs, rules = options.game, options.num_envs, options.rules
    assert game is not None
    same = ("mode", "difficulty", "modifications", "rom_path", "device")
    keywords: dict[str, Any] = {
        "autoreset_mode": "SameStep",
        "frameskip": 1,
        "full_action_space": True,
        "action_delay": options.action_delay or 0,
        "obs_type": "ram",  # the cheapest, because the policy ignores observations
        "reward_clipping": False,
        **{name: getattr(options, name) for name in same},
    }
    if num_players == 1:
        env: BatchEnv = AtariVectorEnv(game, num_envs, rules=rules, **keywords)
    else:
        if rules is not None:
            raise InvalidArgumentError(
                f"rules is {shown(rules)}; with num_players {num_players} it must be left out"
            )
        env = MultiAgentVectorEnv(game, num_envs, num_players=num_players, **keywords)
    random, num_actions = np.random.default_rng(options.seed), len(env.action_set)
    shape = (num_envs,) if num_players == 1 else (num_envs, num_players)
    return env, Policy("random actions", lambda _: random.integers(num_actions, size=shape))


def open_trained(options: PlayOptions) -> tuple[BatchEnv, Policy]:
    """The environments of an evaluation, and the policy of a checkpoint, as in `cule eval`.

    The game, where one is named, must be that of the checkpoint; ROM and rules are by default those
    of training.
    """
    from cule.agents.parts.config import EVALUATION_SEED
    from cule.agents.parts.envs import make_env
    from cule.agents.parts.player import Player
    from cule.agents.run.checkpoint import find_checkpoint
    from cule.agents.run.evaluation import eval_config
    from cule.agents.run.presets import checkpoint_config, find_agent, load_to_play
    from cule.agents.run.weights import read_to_play
    from cule.agents.self_play import SelfPlayEnv

    path, game, device = options.checkpoint, options.game, options.device
    assert path is not None
    own = None if options.agent is None else find_agent(options.agent)
    content = read_to_play(find_checkpoint(path))
    files = {"rom_path": options.rom_path, "rules": options.rules}
    given = {name: path for name, path in files.items() if path is not None}
    config = checkpoint_config(content, own, device=device, env_device="", **given)
    if game is not None and game != config.game and game_id_of(game) != game_id_of(config.game):
        raise InvalidArgumentError(
            f"game is {shown(game)}; the checkpoint {shown(str(path))} plays {shown(config.game)} "
            "alone"
        )
    players = config.num_players
    protocol = options.protocol or DEFAULT_PROTOCOL
    made = make_env(eval_config(config, protocol, options.num_envs * players))
    content["config"]["seed"] = options.seed  # of the actions; the weights are loaded
    try:
        agent = load_to_play(content, made, device, own)
    except BaseException:
        made.close()
        raise
    agent.network.eval()
    generator = agent.setup.make_generator(EVALUATION_SEED)
    player = Player(agent, made.num_envs)

    def act(obs: Observations) -> NDArray[np.generic]:
        seen = made.observations(obs) if isinstance(made, SelfPlayEnv) else obs
        actions: NDArray[np.generic] = to_numpy(player.act(seen, generator, greedy=options.greedy))
        return actions if players == 1 else actions.reshape(-1, players)

    def begin(starts: NDArray[np.bool_]) -> None:
        player.begin(np.repeat(starts, players))

    env = made.games if isinstance(made, SelfPlayEnv) else made
    name = str(path) if str(path).startswith("zoo:") else agent.name
    return env, Policy(f"{name} after {agent.steps:,} steps", act, begin)
