"""The Atari games of several players as PettingZoo environments, one console each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cule.envs import MultiAgentVectorEnv
from cule.envs.checks import INT32_MAX, as_choice, as_int, to_numpy
from cule.envs.errors import ActionRangeError, ActionShapeError
from cule.envs.options import full_screens
from cule.errors import InvalidArgumentError, shown
from cule.games import load_roms
from cule.lazy import needs
from cule.pettingzoo.variants import resolve_variant

with needs("cule[pettingzoo]"):
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import parallel_to_aec, wrappers

#: Names of the players, by their numbers.
AGENTS = ("first_0", "second_0", "third_0", "fourth_0")

OBS_TYPES = ("rgb_image", "grayscale_image", "ram")

SCREEN_WIDTH = 160


class AtariParallelEnv(ParallelEnv):  # type: ignore[misc]  # the library is optional
    """One console whose players all act at once.

    Agents are called ``first_0``, ``second_0`` (, ``third_0``, ``fourth_0``). All get the same
    observation: the screen, uint8 ``[H, 160, 3]``, or gray, ``[H, 160, 1]``, or RAM, ``[128]``.
    Rewards are not clipped, ``infos`` are empty, and a step is one frame without sticky actions.

    When a player is out, the agent terminates and is removed from `agents`; the others continue.
    After `max_cycles` steps all are truncated, and stay.

    Args:
        game: Name in PettingZoo, as in "pong_v3", or of a game, as in "pong".
        num_players: 2 or 4. None: the default of the name.
        mode: A mode of the name. None: its default, or what `arguments` choose.
        obs_type: "rgb_image", "grayscale_image" or "ram".
        full_action_space: All 18 actions instead of those the game uses.
        max_cycles: Steps after which an episode is truncated.
        render_mode: None, or "rgb_array" for `render`.
        seed: Of the first episode, where `reset` gets none. None: entropy.
        rom_path: A ROM file of your own.
        **arguments: Those of the name in PettingZoo that choose a mode, such as `game_version`.

    Raises:
        UnknownGameError: There is no such name.
        InvalidArgumentError: An argument is outside what is allowed.
        RomNotFoundError: The ROM of the game is not available.

    Example:
        >>> from cule.pettingzoo import parallel_env
        >>> env = parallel_env("pong_v3", num_players=2)
        >>> observations, infos = env.reset(seed=1)
        >>> actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        >>> observations, rewards, terminations, truncations, infos = env.step(actions)
        >>> observations["first_0"].shape, rewards
        ((210, 160, 3), {'first_0': 0, 'second_0': 0})
    """

    def __init__(
        self,
        game: str,
        *,
        num_players: int | None = None,
        mode: int | None = None,
        obs_type: str = "rgb_image",
        full_action_space: bool = False,
        max_cycles: int = 100_000,
        render_mode: str | None = None,
        seed: int | None = None,
        rom_path: str | None = None,
        **arguments: object,
    ) -> None:
        """Make the environment."""
        variant = resolve_variant(game, num_players, mode, arguments)
        self._obs_type = as_choice("obs_type", obs_type, OBS_TYPES)
        self._max_cycles = as_int("max_cycles", max_cycles, 1)
        is_rgb = isinstance(render_mode, str) and render_mode == "rgb_array"
        if render_mode is not None and not is_rgb:
            raise InvalidArgumentError(
                f"render_mode is {shown(render_mode)}; it must be None or 'rgb_array'"
            )
        self.render_mode = render_mode
        self._first_seed = seed
        height = load_roms()[variant.game_id].screen_height
        is_ram = self._obs_type == "ram"
        is_gray = self._obs_type == "grayscale_image"
        pictures = {} if is_ram else full_screens(height, grayscale=is_gray)
        self._env = MultiAgentVectorEnv(
            variant.game_id,
            1,
            mode=variant.mode,
            num_players=variant.num_players,
            full_action_space=full_action_space,
            frameskip=1,
            autoreset_mode="Disabled",
            max_num_frames_per_episode=INT32_MAX,
            num_threads=1,
            rom_path=rom_path,
            obs_type="ram" if is_ram else "image",
            **pictures,
        )
        self.metadata = {
            "render_modes": ["rgb_array"],
            "name": variant.name,
            "is_parallelizable": True,
            "render_fps": self._env.frame_rate,
        }
        self.possible_agents = list(AGENTS[: variant.num_players])
        self.agents: list[str] = []
        shapes = {
            "rgb_image": (height, SCREEN_WIDTH, 3),
            "grayscale_image": (height, SCREEN_WIDTH, 1),
            "ram": (128,),
        }
        self._obs_shape = shapes[self._obs_type]
        # A space for each agent, so that each samples on its own.
        self.observation_spaces = {
            agent: gymnasium.spaces.Box(0, 255, self._obs_shape, np.uint8)
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: gymnasium.spaces.Discrete(len(self._env.action_set))
            for agent in self.possible_agents
        }
        self._steps = 0
        self._is_over = True

    def observation_space(self, agent: str) -> gymnasium.spaces.Box:
        """Observations of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        """Actions of an agent, indices into the action set of the game."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[np.uint8]], dict[str, dict[str, Any]]]:
        """Begin an episode.

        Args:
            seed: Seed with which the ROM is loaded again. None: random numbers continue.
            options: Of no use.

        Returns:
            Observations and infos by agent.
        """
        obs, _ = self._env.reset(seed=self._first_seed if seed is None else seed)
        self._first_seed = None
        self.agents = list(self.possible_agents)
        self._steps = 0
        self._is_over = False
        return self._by_agent(obs), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Play a frame.

        Args:
            actions: Indices by agent: one for each of `agents`; those of agents that are out have
                no effect.

        Returns:
            Observations, rewards, terminations, truncations and infos, by the agents that were
            there before the step.

        Raises:
            ActionRangeError: An action outside the action space.
            ActionShapeError: An action that is no integer.
            InvalidArgumentError: An agent has no action, or there is no such agent.
            NotResetError: Before the first reset.
        """
        agents = self.agents
        if not agents and self._is_over and self._steps:
            return {}, {}, {}, {}, {}
        self._check_agents(actions)
        indices = [_index(agent, actions.get(agent, 0)) for agent in self.possible_agents]
        obs, reward, terminated, _, info = self._env.step([indices])
        self._steps += 1
        self._is_over = bool(terminated[0])
        rewards = dict(zip(self.possible_agents, reward[0].tolist(), strict=True))
        out = dict(zip(self.possible_agents, info["is_out"][0].tolist(), strict=True))
        terminations = {agent: self._is_over or out[agent] for agent in agents}
        truncated = self._steps >= self._max_cycles
        self.agents = [agent for agent in agents if not terminations[agent]]
        return (
            {agent: seen for agent, seen in self._by_agent(obs).items() if agent in agents},
            {agent: rewards[agent] for agent in agents},
            terminations,
            dict.fromkeys(agents, truncated),
            {agent: {} for agent in agents},
        )

    def _check_agents(self, actions: object) -> None:
        if not isinstance(actions, Mapping):
            raise InvalidArgumentError(
                f"actions is a {type(actions).__name__}; it must be a dict of actions by agent"
            )
        unknown = [agent for agent in actions if agent not in self.possible_agents]
        if unknown:
            raise InvalidArgumentError(
                f"actions has {shown(unknown[0])}; agents are {', '.join(self.possible_agents)}"
            )
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise InvalidArgumentError(f"actions has none for {', '.join(missing)}")

    def render(self) -> NDArray[np.uint8] | None:
        """The screen with ``render_mode="rgb_array"``: uint8 ``[H, 160, 3]``."""
        if self.render_mode is None:
            gymnasium.logger.warn("render_mode is None; make the environment with 'rgb_array'")
            return None
        screen: NDArray[np.uint8] = self._env.screens("rgb")[0]
        return screen

    def close(self) -> None:
        """Free the console."""
        self._env.close()

    def _by_agent(self, obs: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
        seen = obs.reshape(self._obs_shape)
        return dict.fromkeys(self.possible_agents, seen)


def _index(agent: str, action: object) -> int:
    try:
        return as_int(f"actions[{agent!r}]", to_numpy(action))
    except TypeError as error:
        raise ActionShapeError(str(error)) from None
    except ValueError as error:
        raise ActionRangeError(str(error)) from None


def parallel_env(game: str, **options: Any) -> AtariParallelEnv:
    """An environment whose players all act at once.

    Args:
        game: Name in PettingZoo, as in "pong_v3", or of a game, as in "pong".
        **options: The other arguments of `AtariParallelEnv`.
    """
    return AtariParallelEnv(game, **options)


def env(game: str, **options: Any) -> AECEnv:
    """The same environment, whose players act one after the other.

    Args:
        game: Name in PettingZoo, as in "pong_v3", or of a game, as in "pong".
        **options: The other arguments of `AtariParallelEnv`.
    """
    turns = parallel_to_aec(AtariParallelEnv(game, **options))
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(turns))
