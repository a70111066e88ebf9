"""Explorers and a learner: Ape-X in processes of your own, on replay in shared memory (Linux).

Explorers step their environments, each with its own epsilon, and write transitions with their first
priorities. The learner samples from all of them, updates the priorities, and shares its weights.

python examples/shared_replay.py --game pong --explorers 4 --device cuda
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

import cule
from cule.replay import (
    Batch,
    ReplayWriter,
    SharedHandle,
    SharedOptions,
    SharedPrioritizedReplay,
)

#: Environments of an explorer, steps between two copies of the weights, and updates between copies.
NUM_ENVS, SYNC_STEPS, SHARE_EVERY, TARGET_EVERY = 16, 100, 10, 2_000


class Network(nn.Module):
    """The convolutions of Mnih et al. 2015, with dueling action values."""

    def __init__(self, num_actions: int) -> None:
        """Make the layers."""
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()),
        )
        self.value, self.advantage = nn.Linear(512, 1), nn.Linear(512, num_actions)

    def forward(self, obs: Tensor) -> Tensor:
        """Action values of uint8 observations ``[B, 4, 84, 84]``."""
        features = self.body(obs / 255)
        advantages = self.advantage(features)
        values: Tensor = self.value(features) + advantages - advantages.mean(1, keepdim=True)
        return values


def errors_of(network: nn.Module, target: nn.Module, batch: Batch) -> Tensor:
    """n-step double Q-learning errors ``[B]``; `discounts` are 0 where an episode terminated."""
    with torch.no_grad():
        best = network(batch.next_obs).argmax(1, keepdim=True)
        following = target(batch.next_obs).gather(1, best).squeeze(1)
    taken = network(batch.obs).gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    errors: Tensor = batch.returns + batch.discounts * following - taken
    return errors


def make_env(game: str) -> cule.AtariVectorEnv:
    """Environments of an explorer."""
    return cule.AtariVectorEnv(
        game, NUM_ENVS, output="torch", autoreset_mode="SameStep", num_threads=1
    )


@torch.no_grad()
def explore(
    handle: SharedHandle, index: int, game: str, num_actions: int, shared: Network, scores: Tensor
) -> None:
    """Play with the shared weights until the learner closes the memory."""
    torch.set_num_threads(1)
    env, network = make_env(game), Network(num_actions)
    place = (index * NUM_ENVS + torch.arange(NUM_ENVS)) / max(len(scores) * NUM_ENVS - 1, 1)
    epsilons = 0.4 ** (1 + 7 * place)

    def prioritize(batch: Batch) -> Tensor:
        return errors_of(network, network, batch).abs() + 1e-6

    with ReplayWriter(handle, index, prioritize) as writer:
        obs, _ = env.reset(seed=index)
        writer.start(obs[:, -1])  # the newest frame: the memory stacks frames itself
        steps = 0
        try:
            while True:
                if steps % SYNC_STEPS == 0:
                    network.load_state_dict(shared.state_dict())
                explores = torch.rand(NUM_ENVS) < epsilons
                random = torch.randint(num_actions, (NUM_ENVS,))
                actions = torch.where(explores, random, network(env.observe()[0]).argmax(1))
                step = env.step_frames(actions)
                writer.append(actions, step)
                ended = step.terminated | step.truncated
                if ended.any():
                    scores[index] = step.episode_return[ended].mean()
                steps += 1
        except cule.DisconnectedError:  # the learner has ended
            env.close()


def main() -> None:
    """Start the explorers, and learn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="pong")
    parser.add_argument("--device", default="cpu", help="device of the learner")
    parser.add_argument("--explorers", type=int, default=2)
    parser.add_argument("--capacity", type=int, default=200_000)
    parser.add_argument("--learning-starts", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--updates", type=int, default=100_000)
    args = parser.parse_args()

    torch.manual_seed(0)
    env = make_env(args.game)
    num_actions = len(env.action_set)
    env.close()
    network, target = Network(num_actions).to(args.device), Network(num_actions).to(args.device)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
    shared, scores = Network(num_actions).share_memory(), torch.zeros(args.explorers)
    shared.load_state_dict(network.state_dict())
    scores.share_memory_()  # type: ignore[no-untyped-call]

    options = SharedOptions(
        capacity=args.capacity,
        num_writers=args.explorers,
        num_envs=NUM_ENVS,
        n_step=3,
        reward_clipping="clip",
        terminal_on_life_loss=True,
        device=args.device,
    )
    context = torch.multiprocessing.get_context("spawn")
    with SharedPrioritizedReplay(options) as replay:
        explorers = [
            context.Process(
                target=explore,
                args=(replay.handle(), index, args.game, num_actions, shared, scores),
            )
            for index in range(args.explorers)
        ]
        for explorer in explorers:
            explorer.start()
        while len(replay) < args.learning_starts:
            replay.poll()
            if not all(explorer.is_alive() for explorer in explorers):
                raise SystemExit("an explorer has ended")
            time.sleep(0.1)
        start = time.perf_counter()
        for update in range(1, args.updates + 1):
            batch = replay.sample(args.batch_size)
            errors = errors_of(network, target, batch)
            huber = nn.functional.huber_loss(errors, torch.zeros_like(errors), reduction="none")
            loss = (batch.weights * huber).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            replay.update_priorities(batch.ids, errors.detach().abs() + 1e-6)
            if update % SHARE_EVERY == 0:
                shared.load_state_dict(network.state_dict())
            if update % TARGET_EVERY == 0:
                target.load_state_dict(network.state_dict())
            if update % 100 == 0 or update == args.updates:
                written = sum(writer.num_published for writer in replay.writers())
                print(
                    f"update {update:>7,}  {update / (time.perf_counter() - start):>6.1f} a second"
                    f"  transitions {written:>10,}  loss {float(loss.detach()):.4f}  last scores "
                    f"{' '.join(f'{score:+.1f}' for score in scores.tolist())}"
                )
    for explorer in explorers:  # they end at their next block
        explorer.join()


if __name__ == "__main__":
    main()
