"""Fuzz targets in Python: the readers of bytes from outside.

A target accepts its input or raises a kind of `CuleError`. Any other exception is a finding, as is an
input that takes long or much memory. Replay buffers are also sampled from after they have been restored, which reads memory by the
numbers of the file. `tests.fuzz.run` runs the targets.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gzip
import io
import random
import resource
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from cule import _core
from cule.agents.run.checkpoint import read_checkpoint
from cule.agents.run.weights import read_weights
from cule.errors import CuleError
from cule.games import compile_rules
from cule.games.roms import import_roms, read_rom
from cule.games.schema import load_user_rules
from cule.replay import PrioritizedOptions, PrioritizedReplay, ReplayOptions, UniformReplay
from tests.fuzz import watch_requests
from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import Corpus, findings

LONGEST_INPUT_S = 10
MOST_GROWTH_MB = 1024


@dataclass(frozen=True)
class Target:
    """A reader, called with bytes and a folder for files."""

    read: Callable[[bytes, Path], None]
    corpus: Callable[[], Corpus]
    words: Sequence[bytes] = ()


def saved(content: object) -> bytes:
    """A file of tensors, without a checksum: its content is what is tested."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


# --- Rules files --------------------------------------------------------------------------------

RULES = b"""
[game]
state = { score = 0, reward = 0, terminal = 0, best = -3 }
minimal_actions = [0, 1, 3, 4]
modes = [0, 2]
default_mode = 2
ystart = 30
step = '''
s = bcd2(0x0D, 0x0C) * 10
reward = s - score if s > score else 0
score = s
if ram(0x1A) == 0 and not best: terminal = 1'''
lives = "ram(0x1A) & 7"
mode_setup = '''
while ram(0x10) != mode:
    select(2)
'''
"""
RULE_WORDS = (
    *(b"ram(", b"cartram(", b"bcd1(", b"bcd3(", b" if ", b" else ", b" and ", b" or ", b"not "),
    *(b"while ", b"select(", b"soft_reset()", b"act(", b"rand()", b"fail(", b" << ", b" // "),
    *(b"9" * 40, b"-" * 3000, b"(" * 300, b"[" * 2000, b"\nscore = ", b"0x", b"'''", b"\xff"),
)


def read_rules(data: bytes, folder: Path) -> None:
    path = folder / "rules.toml"
    path.write_bytes(data)
    for user in load_user_rules(path).values():
        compile_rules(user.rules)


# --- Files of tensors ---------------------------------------------------------------------------


def weights_corpus() -> Corpus:
    """Files of weights, without a checksum, and a header that is cut."""
    from safetensors.torch import save

    texts = {
        "algorithm": "ppo",
        "version": "0",
        "game": "pong",
        "config": '{"game": "pong", "seed": 1}',
        "obs_shape": "[4, 84, 84]",
        "num_actions": "6",
        "steps": "100",
        "updates": "10",
    }
    data = save({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, texts)
    return {"weights": data, "other": save({"x": torch.zeros(1)}), "cut": data[:100]}


def read_weights_file(data: bytes, folder: Path) -> None:
    path = folder / "file.safetensors"
    path.write_bytes(data)
    read_weights(path)


def checkpoint_corpus() -> Corpus:
    content = {"format": 1, "network": {"w": torch.zeros(3)}, "steps": 5, "config": {"game": "x"}}
    return {"checkpoint": saved(content), "list": saved([1, "a", torch.ones(2)])}


def read_checkpoint_file(data: bytes, folder: Path) -> None:
    path = folder / "file.pt"
    path.write_bytes(data)
    read_checkpoint(path)


# --- Replay buffers -----------------------------------------------------------------------------


def make_replay(is_prioritized: bool) -> UniformReplay:
    """A full buffer that replays small observations."""
    options = {"capacity": 120, "num_envs": 2, "obs_shape": (3,), "stack": 2, "n_step": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        replay = (
            PrioritizedReplay(PrioritizedOptions(**options))
            if is_prioritized
            else UniformReplay(ReplayOptions(**options))
        )
    replay.start(torch.zeros(2, 3, dtype=torch.uint8))
    ended = torch.rand(70, 2) < 0.1
    replay.append_block(
        frames=torch.ones(70, 2, 3, dtype=torch.uint8),
        actions=torch.zeros(70, 2).long(),
        rewards=torch.ones(70, 2),
        terminated=ended,
    )
    return replay


def replay_corpus() -> Corpus:
    return {
        f"replay-{is_prioritized}": saved(make_replay(is_prioritized).state_dict())
        for is_prioritized in (False, True)
    }


def read_replay_file(data: bytes, folder: Path) -> None:
    path = folder / "replay.pt"
    path.write_bytes(data)
    for is_prioritized in (False, True):
        replay = make_replay(is_prioritized)
        before = {name: tensor.clone() for name, tensor in replay.state_dict()["tensors"].items()}
        try:
            replay.load(path)
        except CuleError:
            for name, tensor in replay.state_dict()["tensors"].items():
                assert torch.equal(tensor, before[name]), f"a refused file changed {name}"
            continue
        for _ in range(2):
            replay.sample(16)


def replay_state_corpus() -> Corpus:
    """One change for each tensor of each buffer, and none."""
    rng = random.Random(0)
    changes = {f"{n}": bytes([n % 2, n // 2]) + rng.randbytes(6) for n in range(24)}
    return {"none": bytes(2), **changes}


def read_replay_state(data: bytes, folder: Path) -> None:
    """Changes of tensors in a saved state: buffer, then tensor, offset (2 bytes), bytes to change."""
    replay = make_replay(is_prioritized=bool(data[:1] and data[0] & 1))
    state = replay.state_dict()
    held = state["tensors"]
    assert isinstance(held, dict)
    tensors = {name: tensor.clone() for name, tensor in held.items()}
    names, rest = list(tensors), data[1:]
    while len(rest) >= 5:
        values = tensors[names[rest[0] % len(names)]].view(-1).view(torch.uint8)
        for n, byte in enumerate(rest[3 : 5 + rest[0] // 32]):
            at = (int.from_bytes(rest[1:3], "little") + n) % len(values)
            values[at] ^= byte
        rest = rest[5 + rest[0] // 32 :]
    replay.load_state_dict({**state, "tensors": tensors})
    for _ in range(2):
        replay.sample(16)


# --- ROM files ----------------------------------------------------------------------------------


def zip_of(compression: int, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.bin", data)
    return file.getvalue()


def roms_corpus() -> Corpus:
    image = bytes(range(256)) * 8
    kinds = {
        "stored": zipfile.ZIP_STORED,
        "deflated": zipfile.ZIP_DEFLATED,
        "lzma": zipfile.ZIP_LZMA,
    }
    archives = {name: zip_of(kind, a=image, b=image[:9]) for name, kind in kinds.items()}
    return {"plain": image, "gzip": gzip.compress(image, mtime=0), **archives}


def read_rom_files(data: bytes, folder: Path) -> None:
    path, target = folder / "file.zip", folder / "target"
    path.write_bytes(data)
    with contextlib.suppress(CuleError):
        import_roms(path, target)
    assert not list(target.glob("*.part")) if target.exists() else True
    image = read_rom(path)
    with contextlib.suppress(ValueError):  # no cartridge type fits
        _core.detect_bankswitch(image)


TARGETS = {
    "rules_file": Target(read_rules, lambda: {"rules": RULES}, RULE_WORDS),
    "weights_file": Target(
        read_weights_file, weights_corpus, (b'"F32"', b"[0,0]", b"NaN", b"1e999")
    ),
    "checkpoint_file": Target(read_checkpoint_file, checkpoint_corpus),
    "replay_file": Target(read_replay_file, replay_corpus),
    "replay_state": Target(read_replay_state, replay_state_corpus),
    "watch_requests": Target(
        watch_requests.read_requests, watch_requests.corpus, watch_requests.WORDS
    ),
    "rom_files": Target(
        read_rom_files, roms_corpus, (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"\x1f\x8b")
    ),
}


class Checker:
    """Runs a target on inputs, and counts them."""

    def __init__(self, name: str, folder: Path) -> None:
        """`folder` is for files, and exists."""
        self.target, self.folder, self.num_inputs = TARGETS[name], folder, 0

    def run(self, data: bytes) -> None:
        """Run one input.

        Raises:
            Exception: A finding.
        """
        self.num_inputs += 1
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        start_s = time.process_time()
        faulthandler.dump_traceback_later(10 * LONGEST_INPUT_S, exit=True)
        with contextlib.suppress(CuleError):
            self.target.read(data, self.folder)
        faulthandler.cancel_dump_traceback_later()
        assert time.process_time() - start_s < LONGEST_INPUT_S, "takes too long"
        grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - memory_mb
        assert grown_mb < MOST_GROWTH_MB, "takes too much memory"


def inputs_of(name: str, seed: int) -> Iterator[bytes]:
    """The corpus with the findings, then mutations without end."""
    corpus = list({**TARGETS[name].corpus(), **findings(name)}.values())
    yield from corpus
    rng = random.Random(f"{name} {seed}")
    while True:
        yield mutated(rng, corpus, TARGETS[name].words)


def main(name: str, seconds: int, found: Path) -> None:
    """Run a target for a time; an input with a finding is kept in `found`."""
    torch.set_num_threads(1)
    end_s = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(name, Path(folder))
        seed = time.time_ns()
        for data in inputs_of(name, seed):
            if time.monotonic() > end_s:
                break
            (found / "last").write_bytes(data)  # of a crash, too
            checker.run(data)
    (found / "last").unlink()
    print(f"totals: {checker.num_inputs} inputs of {name}, seed {seed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
