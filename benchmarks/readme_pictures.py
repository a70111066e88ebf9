"""Makes pictures of the documentation: ``python -m benchmarks.readme_pictures``.

* ``docs/images/environments.png``: all games as one batch under random play, animated.
* ``docs/images/agents.png``: agents of the zoo at play, animated.
* ``docs/images/speed.svg``: speed over that of other libraries, a dot for each game, from
  ``benchmarks/results/bench-57-games.json``.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cule
from cule.agents import load
from cule.envs.png import encode_animation, encode_indexed_png
from cule.games import list_games

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results" / "bench-57-games.json"

#: Columns of the animation, its frames, the steps of random play before it, and lines of a screen.
COLUMNS, FRAMES, STEPS, LINES = 13, 60, 150, 210

#: Agents that are shown, in two rows, and the steps that they play before.
AGENTS = (
    *("breakout-objects", "pong-pixels", "boxing-objects"),
    *("asterix-objects", "freeway-objects", "space_invaders-objects"),
)
AGENT_STEPS = 160

#: Label: ratio in the records.
PEERS = {
    "ale-py": "cule-cpu / ale",
    "ale-py, asynchronous": "cule-cpu / ale-async",
    "EnvPool": "cule-cpu / envpool",
}
LEFT, WIDTH, ROW_HEIGHT, TOP = 170, 620, 62, 64
DOT = 3.2


def animation_of_batch() -> bytes:
    """A PNG file: screens of all games at half their size, step by step."""
    games = list_games()
    env = cule.AtariVectorEnv(
        [(game, 1) for game in games],
        len(games),
        full_action_space=True,
        obs_type="ram",
        render_mode="rgb_array",
    )
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    frames = []
    for step in range(STEPS + FRAMES):
        env.step(rng.integers(len(env.action_set), size=env.num_envs))
        if step >= STEPS:
            screens = env.render()
            assert screens is not None
            small = [screen[:LINES:2, ::2] for screen in screens]
            rows = [small[first : first + COLUMNS] for first in range(0, len(small), COLUMNS)]
            frames.append(np.vstack([np.hstack(row) for row in rows]))
    env.close()
    colours, indices = indexed(np.stack(frames))
    return encode_animation(indices, colours, milliseconds=67)


def animation_of_agents() -> bytes:
    """A PNG file: screens of agents, step by step."""
    agents = [load(f"zoo:{name}") for name in AGENTS]
    envs: list[Any] = [agent.setup.env for agent in agents]
    seen = [env.reset(seed=0)[0] for env in envs]
    frames = []
    for step in range(AGENT_STEPS + FRAMES):
        seen = [
            env.step(agent.predict(obs))[0]
            for agent, env, obs in zip(agents, envs, seen, strict=True)
        ]
        if step >= AGENT_STEPS:
            screens = [env.screens("rgb")[0][:LINES] for env in envs]
            frames.append(np.vstack([np.hstack(screens[:3]), np.hstack(screens[3:])]))
    for env in envs:
        env.close()
    colours, indices = indexed(np.stack(frames))
    return encode_animation(indices, colours, milliseconds=67)


def indexed(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The colours of pixels ``[..., 3]``, and each pixel's number among them."""
    codes = pixels.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], np.int32)
    colours, indices = np.unique(codes, return_inverse=True)
    rgb = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], 1).astype(np.uint8)
    return rgb, indices.reshape(codes.shape).astype(np.uint8)


def mosaic(screens: NDArray[np.uint8]) -> bytes:
    """A PNG file: a column for each game."""
    picture = np.hstack([np.vstack(list(column)) for column in screens])
    colours, indices = indexed(picture)
    return encode_indexed_png(indices, colours)


def dots(ratios: list[float], scale: float, y: float) -> list[str]:
    """Circles for the games; those that would overlap are above and below each other."""
    taken: dict[int, int] = {}
    lines = []
    for ratio in sorted(ratios):
        x = LEFT + ratio * scale
        place = round(x / (2 * DOT))
        number = taken.get(place, 0)
        taken[place] = number + 1
        offset = (number + 1) // 2 * 2 * DOT * (-1 if number % 2 else 1)
        lines.append(f'<circle cx="{place * 2 * DOT:.1f}" cy="{y + offset:.1f}" r="{DOT}"/>')
    return lines


def speed_plot(results: dict[str, Any]) -> str:
    """An SVG file: ratios of frames per second by game."""
    series = {
        label: [record["ratios"][key]["median"] for record in results["records"]]
        for label, key in PEERS.items()
    }
    last = int(max(max(ratios) for ratios in series.values())) + 1
    scale = WIDTH / last
    bottom = TOP + ROW_HEIGHT * len(series)
    machine = results["settings"]["machine"]
    options = results["settings"]["options"]
    envs = results["records"][0]["cell"]["num_envs"]
    about = (
        f"{len(results['records'])} games, {envs} environments, {options['threads']} threads, "
        f"{machine['processor']}; 84x84x4 observations; results equal to ale-py"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {bottom + 50}"',
        ' font-family="sans-serif" font-size="13" fill="#444">',
        f'<rect width="{LEFT + WIDTH + 40}" height="{bottom + 50}" fill="#fff"/>',
        '<text x="16" y="24" font-size="16" fill="#111">Frames per second of cule on a CPU, as a '
        "multiple of other libraries</text>",
        f'<text x="16" y="44">{about}</text>',
    ]
    for tick in range(last + 1):
        x = LEFT + tick * scale
        lines.append(
            f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{"#888" if tick == 1 else "#ddd"}"/>'
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick}x</text>'
        )
    for number, (label, ratios) in enumerate(series.items()):
        y = TOP + ROW_HEIGHT * (number + 0.5)
        x = LEFT + statistics.median(ratios) * scale
        lines += [
            f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end" fill="#111">{label}</text>',
            '<g fill="#3f7fbf" fill-opacity="0.75">',
            *dots(ratios, scale, y),
            "</g>",
            f'<path d="M{x:.1f} {y - 26}V{y + 26}" stroke="#c03020" stroke-width="2"/>'
            f'<text x="{x + 5:.1f}" y="{y - 17}" fill="#c03020">'
            f"{statistics.median(ratios):.1f}x</text>",
        ]
    lines += [
        f'<text x="{LEFT}" y="{bottom + 40}">a dot is a game; red: median over games</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write them."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / "environments.png").write_bytes(animation_of_batch())
    (IMAGES / "agents.png").write_bytes(animation_of_agents())
    (IMAGES / "speed.svg").write_text(speed_plot(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
