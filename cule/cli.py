"""The command line: ``cule info roms mods zoo check bench watch record train sweep plot eval``."""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import platform
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cule import __version__, build_config
from cule.device import describe_devices
from cule.envs.plan import describe_host, make_game
from cule.envs.translation import describe_compilers
from cule.errors import CuleError, MissingPackageError, RomNotFoundError, printable
from cule.familiar_names import Parser, with_flag
from cule.files import replace_bytes
from cule.games import (
    RomStatus,
    game_id_of,
    import_roms,
    list_games,
    resolve,
    rom_folders,
    rom_status,
)
from cule.games.roms import ROM_DIR_VARIABLE

#: Commands whose own modules parse their options, and what they do.
COMMANDS = {
    "check": "what this machine has, whether its results are right, and how fast it is",
    "bench": "frames per second of cule and other libraries: table and plots",
    "watch": "many environments in the browser, playable by keyboard",
    "record": "a dataset of random play or of a checkpoint: seeds and actions",
    "train": "train an agent, with checkpoints and resume",
    "sweep": "train a preset in many games and seeds, with aggregated scores",
    "plot": "learning curves of runs and seeds, with intervals",
    "eval": "play whole games with trained agents and report the scores",
}


#: Unrecognised files that ``cule roms import`` names.
MOST_NAMES = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command: the words after ``cule``, by default those of the process.

    Returns:
        The exit status: 0 done, 1 something is missing or wrong, 2 invalid request, 130
        interrupted by Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    try:
        if words and words[0] in COMMANDS:
            return _run_command(words[0], words[1:])
        parser = _parser()
        if not words:
            parser.exit(2, parser.format_help())
        options = parser.parse_args(words)
        status: int = options.run(options)
    except BrokenPipeError:  # the reader of the output has stopped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("cule: interrupted", file=sys.stderr)
        return 130
    except (CuleError, OSError) as error:
        for line in f"cule: {with_flag(str(error), words)}".splitlines():
            print(printable(line), file=sys.stderr)
        return 2
    return status


def _open_streams() -> None:
    """Open the null device for standard streams that are closed, as with ``2>&-``.

    Otherwise the next file would take their number, and what is written to them. Characters that
    standard output cannot encode, as in names of files, become escapes, as on standard error.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # to the end
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="cule", description="Atari 2600 emulation for reinforcement learning.")
    parser.add_argument("--version", action="version", version=f"cule {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="versions, devices, backends built in, ROM locations")
    info.set_defaults(run=_info)

    roms = commands.add_parser("roms", help="the ROM files of the games")
    actions = roms.add_subparsers(title="actions", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="which games are found, and where")
    listing.set_defaults(run=_list_roms)
    importing = actions.add_parser("import", help="copy the known ROMs of a folder to cule's own")
    importing.add_argument(
        "source",
        type=Path,
        metavar="DIR",
        help="folder, searched with its subfolders and zip archives, or a zip archive",
    )
    importing.set_defaults(run=_import_roms)
    verify = actions.add_parser("verify", help="whether every game is found with the right bytes")
    verify.set_defaults(run=_verify_roms)
    rules = actions.add_parser("rules", help="write the rules of a game for libcule, in C")
    rules.add_argument("game", metavar="GAME")
    rules.add_argument("--out", type=Path, metavar="FILE", help="by default GAME.rules")
    rules.add_argument("--rom-path", metavar="FILE", help="a ROM file of your own")
    rules.add_argument("--rules", metavar="FILE", help="TOML file with rules of your own")
    rules.set_defaults(run=_write_rules)

    mods = commands.add_parser("mods", help="modified games")
    actions = mods.add_subparsers(title="actions", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the modifications of a game, or of all games")
    listing.add_argument("game", nargs="?", metavar="GAME")
    listing.set_defaults(run=_list_modifications)
    showing = actions.add_parser("show", help="a modification: its effect, program or bytes")
    showing.add_argument("game", metavar="GAME")
    showing.add_argument("name", metavar="NAME", help="its name, or FILE.toml:NAME")
    showing.set_defaults(run=_show_modification)

    zoo = commands.add_parser("zoo", help="trained agents")
    actions = zoo.add_subparsers(title="actions", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the agents, with their scores")
    listing.set_defaults(run=_list_zoo)
    showing = actions.add_parser("show", help="the card of an agent")
    showing.add_argument("name", metavar="NAME")
    showing.set_defaults(run=_show_card)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser


def _run_command(command: str, words: Sequence[str]) -> int:
    """Run a command of `COMMANDS`, whose module is imported only here."""
    if command == "bench":
        from cule.bench.command import bench

        return bench(words)
    if command == "check":
        from cule.check.command import check

        return check(words)
    if command == "watch":
        from cule.watch.command import parse, watch

        options = parse(words)
        if options.checkpoint is not None:
            _require_torch("watch CHECKPOINT")
        if options.record is None:
            return watch(options)
        from cule.datasets.command import recording

        return watch(options, partial(recording, path=options.record))
    if command == "record":
        from cule.datasets.command import parse as parse_record
        from cule.datasets.command import record

        request = parse_record(words)
        if request.checkpoint is not None:
            _require_torch("record CHECKPOINT")
        return record(request)
    if command == "plot":
        from cule.agents.sweeps.report import plot

        return plot(words)
    _require_torch(command)
    if command == "sweep":
        from cule.agents.sweeps.command import sweep

        return sweep(words)
    from cule.agents.run import cli as agents

    return agents.train(words) if command == "train" else agents.evaluate_checkpoints(words)


def _require_torch(command: str) -> None:
    """Raise a `MissingPackageError` if torch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise MissingPackageError(f"cule {command} needs torch; pip install 'cule[train]'")


def _info(_: argparse.Namespace) -> int:
    from cule.bench.machine import versions

    config, installed = build_config(), versions()
    packages = ("numpy", "gymnasium", "ale-py", "torch")
    rows = [
        ("cule", __version__),
        ("Python", platform.python_version()),
        *((name, installed.get(name, "not installed")) for name in packages),
        ("platform", platform.platform()),
        ("CPU threads", str(os.cpu_count())),
        *((f"build: {key}", value) for key, value in sorted(config.items())),
        *(tuple(line.split(": ", 1)) for line in describe_devices()),
        ("NVRTC", describe_compilers()),
    ]
    problem = None
    try:
        rows += [(f"ROMs: {source}", str(folder)) for source, folder in rom_folders()]
        found = [status.rom_id for status in rom_status() if status.playable and status.md5_ok]
        rows.append(("games found", f"{len(found)} of {len(list_games())}"))
        rows += [("games on the CPU", describe_host(game)) for game in found[:1]]
    except RomNotFoundError as error:
        problem = error
        rows.append(("ROMs", f"none: {error}"))
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        print(printable(f"{label:<{width}}  {value}"))
    return 0 if problem is None else 1


def _list_roms(_: argparse.Namespace) -> int:
    playable = [status for status in rom_status() if status.playable]
    width = max(len(status.rom_id) for status in playable)
    for status in playable:
        print(f"{status.rom_id:<{width}}  {_where(status)}")
    return 0


def _import_roms(options: argparse.Namespace) -> int:
    report = import_roms(options.source)
    for name in report.unrecognised[:MOST_NAMES]:
        print(printable(f"{name}: no known ROM"))
    if len(report.unrecognised) > MOST_NAMES:
        print(f"and {len(report.unrecognised) - MOST_NAMES} more files that are no known ROM")
    for line in report.unread:
        print(printable(line))
    print(
        f"{len(report.imported)} copied to {report.target}, {len(report.already_there)} there "
        f"already, {len(report.unrecognised)} not recognised, {len(report.unread)} not read"
    )
    return 0 if report.imported or report.already_there else 1


def _verify_roms(_: argparse.Namespace) -> int:
    playable = [status for status in rom_status() if status.playable]
    wrong = [status for status in playable if not status.md5_ok]
    for status in wrong:
        print(f"{status.rom_id}: {_where(status)}")
    print(f"{len(playable) - len(wrong)} of {len(playable)} games have the right ROM")
    if wrong:
        print(f"to add ROMs: cule roms import DIR, or set {ROM_DIR_VARIABLE}")
    return 1 if wrong else 0


def _write_rules(options: argparse.Namespace) -> int:
    from cule.games.objects import games_with_objects, load_objects

    spec = resolve(options.game, options.rom_path, options.rules)
    fields = spec.to_core_kwargs()
    if spec.game_id in games_with_objects():
        fields["objects"] = list(load_objects(spec.game_id).words)
    out = Path(f"{spec.game_id}.rules") if options.out is None else options.out
    replace_bytes(out, make_game(fields).rules_file)
    print(printable(f"{out}: rules of {spec.game_id}, for the ROM {spec.rom_path}"))
    return 0


def _list_zoo(_options: argparse.Namespace) -> int:
    from cule.zoo import PREFIX, cards

    print(f"{'agent':<28}{'game':<16}{'steps':>12}{'no-ops':>12}{'sticky actions':>16}")
    for name, card in cards().items():
        scores = f"{card.noop.mean:>12,.1f}{card.sticky.mean:>16,.1f}"
        print(f"{PREFIX}{name:<24}{card.game:<16}{card.steps:>12,}{scores}")
    return 0


def _show_card(options: argparse.Namespace) -> int:
    from cule.zoo import PREFIX, find_card

    print(find_card(options.name.removeprefix(PREFIX)).text())
    return 0


def _list_modifications(options: argparse.Namespace) -> int:
    from cule.games.modifications import COMMON, games_with_modifications, load_modifications

    games = games_with_modifications() if options.game is None else (game_id_of(options.game),)
    rows = [(name, one) for name in (*games, COMMON) for one in load_modifications(name).values()]
    game_width = max(len(game) for game, _ in rows)
    width = max(len(one.usage()) for _, one in rows)
    for game, one in rows:
        print(f"{game:<{game_width}}  {one.usage():<{width}}  {one.about}")
    return 0


def _show_modification(options: argparse.Namespace) -> int:
    from cule.games.modifications import find_modification

    one = find_modification(game_id_of(options.game), options.name)
    rows = {"name": one.usage(), "does": one.about, "runs": one.when, "changes": one.group}
    if one.defaults:
        rows["defaults"] = ", ".join(f"{key}={value}" for key, value in one.defaults.items())
    if one.state:
        rows["state"] = ", ".join(f"{key}={value}" for key, value in one.state.items())
    rows["checked"] = one.checked
    for label, text in rows.items():
        print(printable(f"{label:<8}  {text}"))
    print("\n" + (one.program.strip() or "\n".join(map(str, one.changes))))
    return 0


def _where(status: RomStatus) -> str:
    if status.path is None:
        return "not found"
    text = f"{status.path} ({status.source}){'' if status.md5_ok else ', wrong bytes'}"
    return printable(text)


if __name__ == "__main__":
    sys.exit(main())
