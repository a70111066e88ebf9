"""Short trainings of every algorithm whose numbers are recorded: they must not change by a bit.

``python -m tests.support.guard --record`` writes ``tests/data/learner_digests.json`` anew. Do that only
where a change of results is intended.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cule
from cule.agents import AGENTS, SelfPlayEnv
from cule.errors import ShortReplayWarning
from tests.support.catch import Catch

RECORD = Path(__file__).parents[1] / "data" / "learner_digests.json"

#: Rounds of a training, and those between two digests.
ROUNDS, ROUNDS_PER_DIGEST = 50, 10

MODES = ("SameStep", "NextStep")

_SMALL = {"network": "mlp", "img_size": 12, "stack_num": 2, "frameskip": 8, "seed": 3}
_ATARI = {"game": "breakout", "num_envs": 4}
_LIVES = {"episodic_life": True}
_REPLAY = {
    "memory": 4_000,
    "learning_starts": 32,
    "batch_size": 16,
    "target_interval": 5,
    "collect_steps": 3,
    "samples_per_insert": 1.5,
}

#: Options of each algorithm with which a round takes milliseconds.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {"num_steps": 5, "num_epochs": 2, "num_minibatches": 2, "learning_rate": 2.5e-3},
    "a2c": {"num_steps": 5, "learning_rate": 2e-3, "learning_rate_schedule": "linear"},
    "vtrace": {
        "num_steps": 4,
        "num_batches": 2,
        "steps_per_update": 2.0,
        "learning_rate": 2e-3,
        "initialization": "he",
    },
    "pqn": {"num_steps": 5, "num_epochs": 2, "num_minibatches": 2, "learning_rate": 1e-3},
    "dqn": {**_REPLAY, "epsilon_steps": 100},
    "rainbow": {**_REPLAY, "num_atoms": 5, "noise_groups": 2},
    "iqn": {**_REPLAY, "num_quantiles": 4, "num_target_quantiles": 3, "num_acting_quantiles": 2},
    "apex-dqn": {**_REPLAY, "sync_steps": 5},
    "apex-dpg": {**_REPLAY, "sync_steps": 5, "n_step": 3},
}

#: Options of an algorithm, on `Catch`.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo-limits": ("ppo", {"target_kl": 1e-3, "entropy_coef_end": 0.0, "clip_range_end": 0.05}),
    "ppo-units": (
        "ppo",
        {"adaptive_kl": 1e-3, "normalize_values": True, "local_norm": True, "clip_values": False},
    ),
    "ppo-continuous-limits": ("ppo", {"continuous": True, "target_kl": 1e-3}),
    "a2c-lambda": ("a2c", {"gae_lambda": 0.9, "entropy_coef_end": 0.1, "lr_scale": "sqrt"}),
    "vtrace-sum": ("vtrace", {"reduction": "sum", "steps_per_update": 0.5, "rho_bar": 0.9}),
    "vtrace-slow": ("vtrace", {"steps_per_update": 3.0, "num_batches": 1}),
    "pqn-ladder": ("pqn", {"exploration": "ladder", "learning_rate_schedule": "linear"}),
    "dqn-double": (
        "dqn",
        {"double": True, "prioritized": True, "exploration": "ladder", "target_tau": 0.5},
    ),
    "dqn-rmsprop": (
        "dqn",
        {"optimizer": "rmsprop", "optimizer_eps": 0.01, "loss": "squared", "n_step": 3},
    ),
    "dqn-atoms": ("dqn", {"num_atoms": 5, "dueling": True, "collect_steps": 2}),
    "iqn-double": ("iqn", {"double": True, "prioritized": True}),
    "apex-dqn-overlap": ("apex-dqn", {"overlap": True, "collect_steps": 2}),
    "apex-dqn-adam": ("apex-dqn", {"optimizer": "adam", "samples_per_insert": 0.7}),
    "apex-dpg-overlap": ("apex-dpg", {"overlap": True, "samples_per_insert": 2.5}),
}


@dataclass(frozen=True)
class Case:
    """A training, by what it is of."""

    algorithm: str
    kind: str
    mode: str

    @property
    def name(self) -> str:
        """The key of its digests."""
        return f"{self.algorithm} {self.kind} {self.mode}"

    def frames(self) -> int:
        """Frames of its longest episodes: rollouts see more steps."""
        return 800 if "num_minibatches" in ALGORITHMS[self.algorithm] else 240

    def config(self) -> Any:
        """Its options."""
        changes: dict[str, Any] = {"total_steps": 8 * 5 * ROUNDS, "decorrelate_steps": 0}
        if self.kind in VARIANTS:
            changes |= {"num_envs": 8, "max_num_frames_per_episode": 24, **VARIANTS[self.kind][1]}
        else:
            changes |= {**_ATARI, "max_num_frames_per_episode": self.frames()}
            changes |= {
                "lives": _LIVES,
                "continuous": {"continuous": True} if self.algorithm == "ppo" else {},
                "pixels": {"normalize_obs": True},
                "games": {"game": "breakout,pong", "full_action_space": True},
                "players": {"game": "pong", "num_players": 2, "fire_after_life_loss": False},
            }.get(self.kind, {})
        options = {**_SMALL, **ALGORITHMS[self.algorithm], **changes}
        return AGENTS[self.algorithm].config_class(**options)

    def env(self, config: Any) -> Any:
        """Environments of its options, with its autoreset mode."""
        if self.kind in VARIANTS:
            return Catch(config.num_envs, continuous=config.continuous, limit=3)
        options: dict[str, Any] = {
            "autoreset_mode": self.mode,
            "output": "torch",
            "img_height": 12,
            "img_width": 12,
            "stack_num": 2,
            "frameskip": 8,
            "noop_max": 4,
            "num_threads": 1,
            "max_num_frames_per_episode": self.frames(),
            "resets": "cached",
            "num_reset_states": 4,
        }
        if self.kind == "players":
            return SelfPlayEnv(cule.MultiAgentVectorEnv("pong", 2, num_players=2, **options))
        return cule.AtariVectorEnv(
            [("breakout", 2), ("pong", 2)] if self.kind == "games" else "breakout",
            4,
            continuous=config.continuous,
            full_action_space=self.kind == "games",
            fire_after_life_loss=self.kind == "lives",
            reward_clipping=False,
            **options,
        )


def cases() -> list[Case]:
    """All trainings; Ape-X has SameStep alone."""
    found = []
    for algorithm in ALGORITHMS:
        kinds = ["lives", "pixels"]
        if algorithm == "ppo":
            kinds.append("continuous")
        if algorithm != "apex-dpg":
            kinds += ["games", "players"]
        modes = MODES[:1] if algorithm.startswith("apex") else MODES
        found += [Case(algorithm, kind, mode) for kind in kinds for mode in modes]
    return found + [Case(algorithm, name, "SameStep") for name, (algorithm, _) in VARIANTS.items()]


def digests_of(case: Case, *, resumed: bool = False) -> list[str]:
    """Digests of a training: of every number of its rounds, and at last of its weights and scores.

    `resumed`: from a checkpoint in the middle, which changes nothing.
    """
    config = case.config()
    env = case.env(config)
    agent: Any = AGENTS[case.algorithm](config, env)
    digests: list[str] = []
    state = hashlib.sha256()
    rounds = agent.train()
    for done in range(ROUNDS):
        if resumed and done == ROUNDS // 2 + 1:
            agent, env, rounds = _reloaded(case, agent, env)
        add_progress(state, next(rounds))
        if (done + 1) % ROUNDS_PER_DIGEST == 0:
            digests.append(state.hexdigest()[:16])
    for tensor in agent.network.state_dict().values():
        state.update(tensor.contiguous().numpy().tobytes())
    if case.kind in VARIANTS:
        for greedy in (False, True):
            others = Catch(5, continuous=config.continuous, limit=3)
            found = agent.evaluate(episodes=10, env=others, greedy=greedy)
            state.update(repr((found.returns, found.lengths)).encode())
    env.close()
    return [*digests, state.hexdigest()[:16]]


def _reloaded(case: Case, agent: Any, env: Any) -> tuple[Any, Any, Iterator[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "middle.pt"
        agent.save(path)
        env.close()
        env = case.env(case.config())
        agent = AGENTS[case.algorithm].load(path, env)
    return agent, env, agent.train()


def add_progress(state: Any, progress: Any) -> None:
    """Add the numbers of a round to a digest."""
    state.update(f"{progress.steps} {progress.updates}".encode())
    names = ("episodes", "episode_return", "episode_length")
    numbers = {name: getattr(progress, name) for name in names} | dict(progress.metrics)
    for name, value in sorted(numbers.items()):
        exact = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
        state.update(name.encode() + exact.detach().numpy().tobytes())


@functools.cache
def fingerprint() -> str:
    """What the last bits of networks depend on: the build of torch, and what this processor makes."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 300, generator=generator)
    w = torch.randn(300, 129, generator=generator, requires_grad=True)
    y = (x @ w).tanh().softmax(-1).log().mean()
    y.backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    state = hashlib.sha256(w.grad.numpy().tobytes())
    state.update(torch.linspace(0.1, 3.0, 1001).exp().rsqrt().numpy().tobytes())
    return f"torch {torch.__version__} {state.hexdigest()[:16]}"


def record(report: Callable[[str], None] = print) -> None:
    """Write the digests of every training."""
    torch.set_num_threads(1)
    digests = {}
    for case in cases():
        digests[case.name] = digests_of(case)
        report(f"{case.name}: {digests[case.name][-1]}")
    lines = [f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in digests.items()]
    body = ",\n".join([f'  "fingerprint": {json.dumps(fingerprint())}', *lines])
    RECORD.write_text(f"{{\n{body}\n}}\n")


def recorded() -> dict[str, Any]:
    """The digests by the names of trainings, and the fingerprint that they were made with."""
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit("python -m tests.support.guard --record")
    warnings.simplefilter("ignore", ShortReplayWarning)
    record()
