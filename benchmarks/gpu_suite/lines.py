"""The lines of the GPU suite in their order, each with its share of the time and its commands.

The commands of a dry run are the same with tiny sizes, on the mock CUDA device of the tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.gpu_suite.device import ROOT, Device

Value = TypeVar("Value")

#: Games whose speed is measured first: simple and busy kernels.
GAMES = ("pong", "breakout", "seaquest", "ms_pacman", "beam_rider")

#: Games of results/jaxtari_throughput.csv.
JAXTARI = ("pong", "tennis", "space_invaders", "skiing", "qbert", "kangaroo", "venture",
           "ms_pacman", "time_pilot", "asteroids", "gravitar", "seaquest", "phoenix",
           "montezuma_revenge", "frostbite")  # fmt: skip

LANES = ("1", "2", "4", "8", "32")
KERNELS = ("interpreter", "compiled")
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")

#: Seconds within which each number of lanes shows that it does not hang.
LANES_LIMIT_S = 30.0

#: Seconds of a build, if there is no kit.
BUILD_LIMIT_S = 240.0

#: Seconds for facts about the machine, also after a build that took longer than its share.
FACTS_LIMIT_S = 30.0

#: Compiles the mock device.
MAKE_MOCK = "from tests.support import kernels; kernels.module()"

#: What `ncu` measures, beside the sections: active lanes and hit rates of local memory.
METRICS = (
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct",
    "l1tex__t_sector_pipe_lsu_mem_local_op_st_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
)
SECTIONS = ("SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats",
            "InstructionStats", "MemoryWorkloadAnalysis")  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A command."""

    name: str
    words: list[str]
    """``{seconds}`` in a word becomes the seconds that it has to measure."""

    limit_s: float = float("inf")
    """Most seconds; those of its stage are fewer as a rule."""

    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """Commands that run side by side, and their share of the time of a line."""

    steps: list[Step]
    share: float = 1.0
    limit_s: float = 0.0
    """Seconds that it may take even if its share is less."""


@dataclass(frozen=True)
class Setting:
    """Where intermediate files go, and what commands run on."""

    work: Path
    device: Device
    kit: Path | None
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
        """Variables of every command: what is installed in the work folder comes first."""
        before = os.environ.get("PYTHONPATH")
        path = [str(self.work / "site"), str(ROOT), *([before] if before else [])]
        return {
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONUNBUFFERED": "1",
            "CULE_CACHE": str(self.work / "cache"),
            "CULE_CUDA_ARCHITECTURES": self.device.architecture,
            "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1),
        }


def _install(setting: Setting) -> list[Stage]:
    """Install the kit, or build; a dry run without a kit stops before the compilers."""
    words = ["-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check"]
    words += ["--root-user-action", "ignore", "--target", str(setting.work / "site")]
    if setting.kit:
        words += sorted(map(str, (setting.kit / "wheels").glob("*.whl")))
        install = Step("install", [sys.executable, *words])
        unpack = ["-m", "benchmarks.gpu_suite.kit", str(setting.kit)]
        stages = [Stage([install, Step("kernels", [sys.executable, *unpack])], 2.0)]
    else:
        wheels = os.environ.get("WHEELS")
        words += ["--no-build-isolation", "-C", "cmake.define.CULE_CUDA=ON"]
        words += ["-C", "cmake.define.CULE_LTO=OFF", str(ROOT)]
        words += sorted(map(str, Path(wheels).resolve().glob("*.whl"))) if wheels else []
        words += ["--dry-run"] if setting.is_dry else []
        stages = [Stage([Step("build", [sys.executable, *words])], 2.0, BUILD_LIMIT_S)]
    if setting.is_dry:
        mock = Step("mock-device", setting.python("-c", MAKE_MOCK))
        stages.append(Stage([mock], limit_s=BUILD_LIMIT_S))
    facts = [
        Step("info", setting.cule("info")),
        Step("roms", [sys.executable, "-m", "cule.cli", "roms", "verify"]),
        Step("resources", setting.python("-m", "benchmarks.gpu_suite.resources", "resources.json")),
        Step("device", ["nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE"]),
    ]
    return [*stages, Stage(facts, limit_s=FACTS_LIMIT_S)]


def _equal(setting: Setting, name: str, *words: str) -> Step:
    """Compare with the CPU until the time is over."""
    until = ["--seconds", "{seconds}", "--out", f"{name}.json"]
    limit_s = setting.choose(LANES_LIMIT_S, float("inf"))  # the mock device compiles in it
    return Step(name, setting.python("-m", "benchmarks.equality", *words, *until), limit_s)


def _equal_small(setting: Setting) -> list[Stage]:
    """Each kernel with each number of lanes, in processes of their own."""
    sizes = setting.choose(["--steps", "400", "--envs-per-game", "72"],
                           ["--steps", "4", "--envs-per-game", "3", "--chunk", "2"])  # fmt: skip
    games = {"interpreter": ["pong", "seaquest", "montezuma_revenge"], "compiled": ["pong"]}
    lanes = setting.choose(LANES, LANES[:1])
    steps = [
        _equal(setting, f"equal-{kernel}-{count}", "--kernel", kernel, "--lanes", count,
               "--games", *games[kernel], *sizes)
        for count in lanes for kernel in KERNELS
    ]  # fmt: skip
    return [Stage(steps)]


def _rates(setting: Setting, name: str, games: tuple[str, ...], sizes: str, *words: str) -> Step:
    """Measure frames per second of games, see `throughput`."""
    chosen = ["--games", *setting.choose(games, GAMES[:1])]
    chosen += ["--num-envs", setting.choose(sizes, "2,3"), "--seconds", "{seconds}"]
    run = ["-m", "benchmarks.gpu_suite.throughput", *chosen, *words, "--out", f"{name}.json"]
    return Step(name, setting.python(*run))


def _fps(setting: Setting) -> list[Stage]:
    sizes = "1200,4096,32768"
    interpreter = ("--engine", "cule-cuda@interpreter")
    return [
        Stage([_rates(setting, "fps-compiled", GAMES, sizes)], 3.0),
        Stage([_rates(setting, "fps-interpreter", GAMES[:2], sizes, *interpreter)]),
    ]


def _lanes(setting: Setting) -> list[Stage]:
    """Numbers of consoles that share a warp, for the rule of `cule.envs.launch`."""
    return [
        Stage([_rates(setting, f"lanes-{size}", GAMES[:3], size, "--lanes", counts)])
        for size, counts in setting.choose(_SHARED_WARPS, (("2", "1,2x1"),))
    ]


#: Numbers of environments, and of consoles in a warp x warps in a block: 4,096 environments with 16
#: a warp are 64 blocks of four warps, half of the multiprocessors, or 128 of two.
_SHARED_WARPS = (("1200", "1,8"), ("4096", "1,4,8,16,16x2,16x1,32x1"), ("32768", "16,32,32x2"))


def _profile(setting: Setting) -> list[Stage]:
    profile = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv"]
    profile += ["--page", "raw", "--kernel-name-base", "demangled", "--kernel-name", "regex:cule"]
    for section in SECTIONS:
        profile += ["--section", section]
    profile += ["--metrics", ",".join(METRICS)]
    stages = []
    for kernel, num_envs in setting.choose(
        [("compiled", 1200), ("compiled", 4096), ("compiled", 32768), ("interpreter", 4096)],
        [("compiled", 2), ("interpreter", 2)],
    ):
        name = f"profile-{kernel}-{num_envs}"
        run = _steps(setting, num_envs, kernel, "--profiled", "1")
        stages.append(Stage([Step(name, [*profile, "--log-file", f"{name}.csv", *run])]))
    return stages


def _steps(setting: Setting, num_envs: int, kernel: str, *words: str) -> list[str]:
    """A few steps of one game without anything else."""
    fixed = ["--game", GAMES[0], "--num-envs", str(num_envs), "--kernel", kernel]
    warm_up = ["--steps", setting.choose("60", "2")]
    return setting.python("-m", "benchmarks.steps", *fixed, *warm_up, *words)


def _fps_57(setting: Setting) -> list[Stage]:
    jaxtari = _rates(
        setting, "jaxtari-constant", JAXTARI, "1024,4096,8192", "--actions", "constant"
    )
    return [
        Stage([_rates(setting, "fps-57", ("57",), "4096,1200")], 4.0),
        Stage([_rates(setting, "fps-32768", ("default",), "32768")]),
        Stage([jaxtari], 2.0),
    ]


def _bench(setting: Setting, folder: str, *words: str) -> list[str]:
    """``cule bench`` within the time of a step."""
    fixed = ["--no-memory", "--minutes", "{minutes}", "--out", folder]
    return setting.cule("bench", *fixed, *words, *setting.choose((), _TINY_ROUNDS))


_TINY_ROUNDS = ("--seconds", "0", "--rounds", "2", "--round-steps", "1")


def _training(setting: Setting) -> list[Stage]:
    """Rates of rollouts and updates, then pong towards 18; the mock device computes in float32."""
    words = ["--preset", "gpu", "--load", "training", "--algorithms", "ppo,vtrace"]
    words += ["--games", GAMES[0], "--engines", "cule-cuda", "--cuda-graphs", "--rollout-steps"]
    words += setting.choose(["16", "--precision", "bf16"], ["4", "--threads", "1"])
    words += ["--num-envs", setting.choose("1024,4096", "2")]
    rates_s = setting.choose(0.0, 60.0)  # on the mock device
    game = setting.choose(GAMES[0], "klax")  # klax has short episodes
    train = ["train", "ppo-gpu", "--game", game, "--device", "cuda", "--cuda-graphs"]
    train += ["--no-progress-bar", "--out", "pong", *setting.choose(_PONG, _TINY_PONG)]
    return [
        Stage([Step("training-rates", _bench(setting, "training-rates", *words))], limit_s=rates_s),
        # A training ends as if it were complete when it is asked to at its limit.
        Stage([Step("pong", setting.cule(*train))], 3.0),
    ]


_PONG = ["--eval-every", "1250000", "--eval-episodes", "32", "--target-score", "18",
         "--log-every", "50000"]  # fmt: skip
_TINY_PONG = ["--num-envs", "2", "--num-steps", "8", "--num-minibatches", "2", "--total-steps",
              "32", "--log-every", "32", "--precision", "fp32", "--network", "small", "--img-size",
              "42", "--torch-threads", "1", "--decorrelate-steps", "0", "--eval-every", "32",
              "--eval-episodes", "10"]  # fmt: skip


def _equal_all(setting: Setting) -> list[Stage]:
    """All games in one batch, and beside it compiled kernels, a game at a time."""
    sizes = setting.choose(["--envs-per-game", "8"], ["--envs-per-game", "2", "--chunk", "2"])
    interpreter = setting.choose(["all", "--steps", "1000"], ["pong", "freeway", "--steps", "4"])
    compiled = setting.choose(["57", "--steps", "40"], ["pong", "--steps", "4"])
    steps = [
        _equal(setting, f"equal-all-{kernel}", "--kernel", kernel, *sizes, "--games", *games)
        for kernel, games in (("interpreter", interpreter), ("compiled", compiled))
    ]
    return [Stage([Step(step.name, step.words) for step in steps])]


def _sanitizers(setting: Setting) -> list[Stage]:
    # Each tensor has memory of its own, so that a write past its end is seen.
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    tool_words = ["compute-sanitizer", "--error-exitcode", "9", "--tool"]
    stages = []
    for tools in (SANITIZERS[:2], SANITIZERS[2:]):
        steps = [
            Step(f"{tool}-{kernel}",
                 [*tool_words, tool, *_steps(setting, setting.choose(40, 2), kernel),
                  "--steps", setting.choose("6", "1")], environment=environment)
            for tool in tools for kernel in KERNELS
        ]  # fmt: skip
        stages.append(Stage(steps))
    return stages


def _tests(setting: Setting) -> list[Stage]:
    """All tests of a GPU; what only a real one warns of is no failure, and one does not end all."""
    words = ["-m", "pytest", str(ROOT / "tests" / "gpu"), "-m", "gpu", "--tb=short", "-q", "-ra"]
    words += ["-p", "no:cacheprovider", "--import-mode=importlib", "--rootdir", str(ROOT)]
    words += ["-c", str(ROOT / "pyproject.toml"), "-o", "addopts=", "-o", "pythonpath="]
    words += ["-o", "filterwarnings=default"]
    one = ["--fake-cuda", "-k", "test_the_first_step_may_be_captured"]
    words += setting.choose(["--require", "gpu", "-n", "16"], one)
    return [Stage([Step("tests", [sys.executable, *words])])]


def _cpu(setting: Setting) -> list[Stage]:
    """The CPU back end against ale-py by number of threads; the GPU is idle."""
    stages = []
    for threads in setting.choose(("1", "4", "8", "16"), ("1",)):
        words = ["--load", "emulation", "--engines", "cule-cpu,ale", "--threads", threads]
        words += ["--num-envs"]
        words += [setting.choose("128", "2"), "--games", setting.choose("default", "pong")]
        words += setting.choose(("--seconds", "0.6"), ())
        name = f"cpu-{threads}"
        stages.append(Stage([Step(name, _bench(setting, name, *words))]))
    return stages


def _xla(setting: Setting) -> list[Stage]:
    """``env.xla()`` under the JAX of the machine: on the CPU, and on the GPU."""
    sizes = ["--games", "pong", "--rounds", "2", *setting.choose((), ("--steps", "2"))]
    run = [sys.executable, "-m", "benchmarks.jax_steps"]
    cpu = [*run, *sizes, "--record", "xla-cpu.json"]
    stages = [Stage([Step("xla-cpu", cpu, environment={"JAX_PLATFORMS": "cpu"})])]
    if not setting.is_dry:  # JAX knows no mock device
        sizes = ["--device", "cuda", "--games", "pong,seaquest", "--num-envs", "4096"]
        gpu = [*run, *sizes, "--steps", "20", "--rounds", "5", "--record", "xla-cuda.json"]
        environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        stages.append(Stage([Step("xla-cuda", gpu, environment=environment)], 2.0))
    return stages


@dataclass(frozen=True)
class Line:
    """A line of the suite."""

    name: str
    seconds: float
    """Its share of the time, in seconds of a run of 400."""

    summary: str
    stages: Callable[[Setting], list[Stage]]


_ALL = (
    Line("install", 20, "install or build; versions, ROMs, resources, clocks", _install),
    Line("equal-small", 40, "small batches of each kernel and number of lanes", _equal_small),
    Line("fps", 45, "frames per second of five games at three sizes", _fps),
    Line("profile", 40, "profile of the kernels of a step at three sizes", _profile),
    Line("fps-57", 130, "frames per second of 57 games, and of JAXtari's 15", _fps_57),
    Line("training", 80, "rates of PPO and V-trace; pong towards 18", _training),
    Line("equal-all", 45, "104 games in one batch; 57 with compiled kernels", _equal_all),
    Line("lanes", 40, "numbers of consoles that share a warp", _lanes),
    Line("sanitizers", 120, "memory errors and races", _sanitizers),
    Line("tests", 110, "tests/gpu", _tests),
    Line("cpu", 40, "the CPU back end against ale-py on 1 to 16 threads", _cpu),
    Line("xla", 20, "env.xla() under JAX", _xla),
)

#: Lines by name, in order.
LINES: dict[str, Line] = {line.name: line for line in _ALL}

#: Lines of a run that names none.
FIRST = tuple(LINES)[:7]
