"""The parts of the GPU suite, in order: the commands of each, and what its record keeps of them.

A part has steps. The time left to it is shared between the steps that are left, in proportion to
`Step.share`, so that an early step does not use up the time of a late one. The steps of a dry run
are the same commands with tiny sizes, on the mock CUDA device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.gpu_suite import measured
from benchmarks.gpu_suite.device import ROOT, Device

Value = TypeVar("Value")

#: Of tests/gpu: equality of CPU and GPU, and CUDA graphs.
TESTS = (
    "test_cuda.py::test_the_first_step_may_be_captured",
    "test_cuda.py::test_graph_with_a_policy",
    "test_cuda.py::test_step_neither_waits_nor_allocates",
    "test_cuda.py::test_equals_the_cpu",
    "test_cuda.py::test_several_games_in_one_batch",
    "test_cuda.py::test_options",
    "test_cuda.py::test_large_batch_equals_small_ones",
    "test_agents.py::test_replayed_steps_are_the_environments",
    "test_agents.py::test_learners_replay",
)

GAMES = ("pong", "seaquest")
KERNELS = ("interpreter", "compiled")
SANITIZERS = ("memcheck", "racecheck", "initcheck")

#: Trainings of pong by name: preset and options, and agent steps between two evaluations. Few
#: environments learn from fewer steps, many step faster.
TRAININGS = {
    "ppo-256": (["ppo-gpu", "--num-envs", "256", "--num-steps", "64"], 500_000),
    "ppo": (["ppo-gpu"], 2_000_000),
    "vtrace": (["vtrace-gpu"], 3_000_000),
    "apex": (["apex-dqn-gpu"], 3_000_000),
}
TARGET_SCORE = 18


@dataclass(frozen=True)
class Step:
    """A command of a part."""

    name: str
    words: list[str]
    """The command; ``{minutes}`` in a word becomes the minutes it has to start its measurements."""

    share: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    is_required: bool = False
    """The part ends if it fails."""


@dataclass(frozen=True)
class Setting:
    """Where results go, and what commands run on."""

    out: Path
    device: Device
    is_dry: bool

    def choose(self, value: Value, tiny: Value) -> Value:
        """A size, or that of a dry run."""
        return tiny if self.is_dry else value

    def python(self, *words: str) -> list[str]:
        """A command of the interpreter; in a dry run its CUDA device is the mock one."""
        mock = ("-m", "tests.support.run_on_fake_cuda") if self.is_dry else ()
        return [sys.executable, *mock, *words]

    def cule(self, *words: str) -> list[str]:
        """A command of cule."""
        return self.python("-m", "cule.cli", *words)

    def environment(self) -> dict[str, str]:
        """Variables of every command."""
        return {
            "PYTHONUNBUFFERED": "1",
            "CULE_CUDA_ARCHITECTURES": self.device.architecture,
            "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1),
        }

    def is_built(self) -> bool:
        """Whether the CUDA back end can be imported."""
        test = "import sys; from cule.device import cuda_module; sys.exit(cuda_module() is None)"
        command = [sys.executable, "-c", test]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        return done.returncode == 0


def _install(setting: Setting) -> Step:
    """Build for the one architecture of the device; a dry run stops before the compilers."""
    wheels = os.environ.get("WHEELS")
    words = ["-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation"]
    words += ["-C", "cmake.define.CULE_CUDA=ON", "-C", "cmake.define.CULE_LTO=OFF", "-e", "."]
    words += sorted(map(str, Path(wheels).resolve().glob("*.whl"))) if wheels else []
    words += ["--dry-run"] if setting.is_dry else []
    return Step("install", [sys.executable, *words], share=2.0, is_required=True)


def _needing_build(steps: Callable[[Setting], list[Step]]) -> Callable[[Setting], list[Step]]:
    """Steps that begin with the build if it is missing."""

    def with_build(setting: Setting) -> list[Step]:
        needed = [] if setting.is_built() else [_install(setting)]
        return [*needed, *steps(setting)]

    return with_build


def _build(setting: Setting) -> list[Step]:
    chosen = setting.choose(TESTS, TESTS[:1])
    tests = ["-m", "pytest", "-x", "-v", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts="]
    tests += ["--import-mode=importlib", "-W", "ignore::DeprecationWarning", "-m", "gpu"]
    tests += setting.choose(["--require", "gpu"], ["--fake-cuda"])
    return [
        _install(setting),
        Step("info", setting.cule("info")),
        Step("roms", [sys.executable, "-m", "cule.cli", "roms", "verify"]),
        Step("resources", setting.python("-m", "benchmarks.gpu_suite.resources",
                                         str(setting.out / "build" / "resources.json"))),
        Step("tests", [sys.executable, *tests, *(f"tests/gpu/{name}" for name in chosen)], 5.0),
    ]  # fmt: skip


def _equality(setting: Setting) -> list[Step]:
    words = ["-m", "benchmarks.equality", "--out", str(setting.out / "equality" / "equality.json")]
    words += setting.choose(
        ["--steps", "1000", "--envs-per-game", "8"],
        ["--steps", "6", "--envs-per-game", "2", "--chunk", "4", "--games", "pong", "freeway"],
    )
    return [Step("equality", setting.python(*words))]


def _bench(setting: Setting, folder: str, *words: str) -> list[str]:
    """``cule bench`` on the GPU; the cells that `folder` has are kept."""
    fixed = ["--preset", "gpu", "--no-memory", "--minutes", "{minutes}", "--resume"]
    fixed += ["--out", str(setting.out / folder), *words]
    return setting.cule("bench", *fixed, *setting.choose((), _TINY_ROUNDS))


_TINY_ROUNDS = ("--seconds", "0", "--rounds", "2", "--round-steps", "1", "--threads", "1")


def _fps(setting: Setting) -> list[Step]:
    games = ["--games", *setting.choose(GAMES, GAMES[:1])]
    sizes = ["--num-envs", setting.choose("1200,4096,32768", "2,3")]
    interpreter, both = f"cule-cuda@{KERNELS[0]}", [f"cule-cuda@{kernel}" for kernel in KERNELS]
    measure = [*games, *sizes, "--engines"]
    return [
        Step("interpreter", _bench(setting, "fps/interpreter", *measure, interpreter)),
        Step("compile", setting.python("-m", "benchmarks.compile_games", *games, *sizes), 3.0),
        Step("kernels", _bench(setting, "fps/kernels", *measure, *both), 2.0),
    ]


def _ncu(setting: Setting) -> list[Step]:
    profile = ["ncu", "--clock-control", "none", "--profile-from-start", "off"]
    profile += ["--kernel-name-base", "demangled", "--kernel-name", "regex:cule", "--csv"]
    profile += ["--set", "basic", "--section", "SpeedOfLight", "--section", "WarpStateStats"]
    profile += ["--section", "MemoryWorkloadAnalysis", "--section", "InstructionStats"]
    (setting.out / "ncu").mkdir(exist_ok=True)
    steps = []
    for kernel in KERNELS:
        for num_envs in setting.choose((4096, 32768), (2,)):
            name = f"{kernel}-{num_envs}"
            log = ["--log-file", str(setting.out / "ncu" / f"{name}.csv")]
            run = _steps(setting, num_envs, kernel, "--profiled", "2")
            steps.append(Step(name, [*profile, *log, *run]))
    return steps


def _steps(setting: Setting, num_envs: int, kernel: str, *words: str) -> list[str]:
    """A few steps of one game without anything else."""
    fixed = ["--game", GAMES[0], "--num-envs", str(num_envs), "--kernel", kernel]
    warm_up = ["--steps", setting.choose("100", "2")]
    return setting.python("-m", "benchmarks.steps", *fixed, *warm_up, *words)


def _fps_57(setting: Setting) -> list[Step]:
    words = ["--games", *setting.choose(("57",), GAMES[:1])]
    words += ["--num-envs", setting.choose("4096,32768", "2"), "--seconds", "0.5"]
    return [Step("fps-57", _bench(setting, "fps-57", *words, "--engines", "cule-cuda@interpreter"))]


def _fps_train(setting: Setting) -> list[Step]:
    """Rollouts and updates with graphs in bfloat16; the mock device computes in float32."""
    words = ["--load", "training", "--algorithms", "ppo,vtrace", "--cuda-graphs"]
    words += ["--games", GAMES[0], "--engines", "cule-cuda", "--rollout-steps"]
    words += setting.choose(["32", "--precision", "bf16"], ["4"])
    words += ["--num-envs", setting.choose("256,1024,4096,16384", "2")]
    return [Step("fps-train", _bench(setting, "fps-train", *words))]


def _sanitizer(setting: Setting) -> list[Step]:
    # Each tensor has memory of its own, so that a write past its end is seen.
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    run = _steps(setting, setting.choose(40, 2), KERNELS[0])
    run += setting.choose(["--steps", "6"], [])
    return [
        Step(tool, ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *run],
             environment=environment)
        for tool in SANITIZERS
    ]  # fmt: skip


def _train(setting: Setting) -> list[Step]:
    game = setting.choose(GAMES[0], "klax")  # klax has short episodes
    fixed = ["--game", game, "--device", "cuda", "--cuda-graphs", "--no-progress-bar"]
    fixed += ["--target-score", str(TARGET_SCORE), "--eval-episodes", "10", "--resume"]
    steps = []
    for name, (words, eval_every) in TRAININGS.items():
        sizes = ["--total-steps", "1e9", "--eval-every", str(eval_every), "--log-every", "500000"]
        # A training ends as if it were complete when it is asked to at its limit.
        command = ["train", *words, *fixed, *setting.choose(sizes, _TINY_TRAININGS[name])]
        steps.append(Step(name, setting.cule(*command, "--out", str(setting.out / "train" / name))))
    return steps


_TINY = ["--num-envs", "2", "--total-steps", "32", "--log-every", "32", "--precision", "fp32",
         "--network", "small", "--img-size", "42", "--torch-threads", "1", "--decorrelate-steps",
         "0", "--eval-every", "32"]  # fmt: skip
_TINY_REPLAY = ["--memory", "4096", "--learning-starts", "8", "--batch-size", "8"]
_NO_EVALUATION = ["--eval-episodes", "0"]
_TINY_TRAININGS = {
    "ppo-256": [*_TINY, "--num-steps", "8", "--num-minibatches", "2"],
    "ppo": [*_TINY, "--num-steps", "8", "--num-minibatches", "2", *_NO_EVALUATION],
    "vtrace": [*_TINY, "--num-steps", "4", "--num-batches", "2", *_NO_EVALUATION],
    "apex": [*_TINY, *_TINY_REPLAY, *_NO_EVALUATION],
}


@dataclass(frozen=True)
class Part:
    """A part of the suite."""

    name: str
    summary: str
    steps: Callable[[Setting], list[Step]]
    measure: Callable[[Path], object]
    """What the record keeps of the results so far; its argument is the folder of all parts."""


#: Parts by name, in order.
PARTS = {
    part.name: part
    for part in (
        Part("build", "build for this device, and tests", _build, measured.of_build),
        Part("equality", "every game for 1,000 steps, GPU = CPU", _needing_build(_equality),
             measured.of_equality),
        Part("fps", "frames per second by size and kernel", _needing_build(_fps), measured.of_fps),
        Part("ncu", "profile of the kernels of a step", _needing_build(_ncu), measured.of_ncu),
        Part("fps-57", "frames per second of 57 games", _needing_build(_fps_57),
             measured.of_fps_57),
        Part("fps-train", "frames per second of PPO and V-trace by size",
             _needing_build(_fps_train), measured.of_fps_train),
        Part("sanitizer", "memory errors and races", _needing_build(_sanitizer),
             measured.of_sanitizer),
        Part("train", "trainings towards a score", _needing_build(_train), measured.of_train),
    )
}  # fmt: skip
