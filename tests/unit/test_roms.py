"""ROM files: reading, recognising, finding; game names; rules files."""

from __future__ import annotations

import gzip
import importlib.util
import warnings
import zipfile
from pathlib import Path

import pytest

from cule.errors import (
    CuleError,
    InvalidArgumentError,
    RomNotFoundError,
    RulesError,
    UnknownGameError,
    UnsupportedRomError,
)
from cule.games import import_roms, list_games, load_games, load_roms, resolve, rom_status
from cule.games.roms import MAX_ROM_BYTES, md5_of, read_rom, rom_stem
from cule.games.schema import ConsoleProperties
from cule.games.spec import game_id_of

HOME_MADE = bytes(range(256)) * 16
RULES = """
[my_game]
state = { score = 0, reward = 0, terminal = 0 }
step = "reward = ram(0x10)"
lives = "3"
"""


@pytest.fixture(autouse=True)
def _no_user_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CULE_ROM_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user data"))


@pytest.fixture
def without_ale(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if ale-py were not installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *args: None if name == "ale_py" else find_spec(name, *args),
    )


@pytest.fixture
def ale_roms() -> Path:
    spec = importlib.util.find_spec("ale_py")
    folder = Path(spec.submodule_search_locations[0]) / "roms" if spec else None
    if folder is None or not (folder / "pong.bin").is_file():
        pytest.skip("ale-py with its ROMs is not installed")
    return folder


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return path


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def refused(kind: type[CuleError], *parts: str, **arguments: object) -> None:
    """Resolving fails with this kind of error, and its message holds all parts."""
    with pytest.raises(kind) as caught:
        resolve(**arguments)
    for part in parts:
        assert part in str(caught.value)


# names


@pytest.mark.parametrize(
    ("name", "game_id"),
    [
        ("pong", "pong"),
        ("MsPacman", "ms_pacman"),
        ("ms-pacman", "ms_pacman"),
        ("Ms Pacman", "ms_pacman"),
        ("TicTacToe3D", "tic_tac_toe_3d"),
        ("combat", "combat"),
    ],
)
def test_spellings_of_a_name(name: str, game_id: str) -> None:
    assert game_id_of(name) == game_id


def test_every_id_and_title_is_a_name() -> None:
    for game_id, rules in load_games().items():
        assert game_id_of(game_id) == game_id_of(rules.title) == game_id
    assert list_games() == tuple(sorted(load_games()))
    assert len(list_games()) == 104


@pytest.mark.parametrize(
    ("name", "near"),
    [("pogn", "pong"), ("Brakeout", "breakout"), ("invaders", "space_invaders"), ("pac", "pacman")],
)
def test_unknown_names_get_near_matches(name: str, near: str) -> None:
    refused(UnknownGameError, f"game {name!r} is unknown", "did you mean", near, game=name)


def test_names_without_near_matches_get_the_list() -> None:
    refused(UnknownGameError, "adventure, air_raid", "zaxxon", game="xxxxxxxxxxxxxxxx")
    refused(UnknownGameError, "game '' is unknown", "a ROM of your own needs its rules", game="")
    assert issubclass(UnknownGameError, ValueError)


@pytest.mark.parametrize("game", [3, b"pong", ["pong"]])
def test_names_are_texts(game: object) -> None:
    refused(InvalidArgumentError, f"game is {game!r}", game=game)


@pytest.mark.parametrize("game", ["combat", "Joust", "maze_craze", "warlords"])
def test_games_without_rules_are_refused_by_name(game: str) -> None:
    refused(UnsupportedRomError, game.lower(), "no single-player rules", "rules", game=game)


# files


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("Pong.bin", "pong"),
        ("pong.BIN.gz", "pong"),
        ("pong.gz", "pong"),
        ("pong", "pong"),
        ("a.b.a26", "a.b"),
        (".bin", ".bin"),
    ],
)
def test_stem(name: str, stem: str) -> None:
    assert rom_stem(Path(name)) == stem


def test_plain_and_compressed_files_read_alike(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.bin", HOME_MADE)
    packed = write(tmp_path / "b.bin", gzip.compress(HOME_MADE, mtime=0))
    assert read_rom(plain) == read_rom(packed) == HOME_MADE
    largest = write(tmp_path / "c.bin", gzip.compress(bytes(MAX_ROM_BYTES)))
    assert len(read_rom(largest)) == MAX_ROM_BYTES


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(HOME_MADE, mtime=0)[:-20], "truncated or damaged gzip"),
        (gzip.compress(HOME_MADE, mtime=0)[:5], "truncated or damaged gzip"),
        (gzip.compress(HOME_MADE, mtime=0)[:-8] + bytes(8), "truncated or damaged gzip"),
        (bytes(MAX_ROM_BYTES + 1), "holds more than 524288 bytes"),
        (gzip.compress(bytes(100 * MAX_ROM_BYTES)), "holds more than 524288 bytes"),
        (HOME_MADE[:1000], "holds 1000 bytes, which is no size of a cartridge"),
        (HOME_MADE[:-1], "is the file truncated?"),
    ],
)
def test_damaged_files(tmp_path: Path, rules_file: Path, data: bytes, message: str) -> None:
    path = write(tmp_path / "pong.bin", data)
    for rules in (None, rules_file):
        refused(UnsupportedRomError, str(path), message, rom_path=path, rules=rules)
    assert issubclass(UnsupportedRomError, ValueError)


def test_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "pong.bin"
    refused(RomNotFoundError, f"there is no ROM file {path}", game="pong", rom_path=path)
    refused(RomNotFoundError, "is a folder", game="pong", rom_path=tmp_path)
    refused(RomNotFoundError, str(path), rom_path=path / "below")
    refused(RomNotFoundError, "cannot read", rom_path=tmp_path / ("x" * 5000))
    assert issubclass(RomNotFoundError, FileNotFoundError)


@pytest.mark.parametrize("path", [3, b"pong.bin", "", "a\0b", 1.5])
def test_paths_are_paths(path: object) -> None:
    refused(InvalidArgumentError, f"rom_path is {path!r}", rom_path=path)
    refused(InvalidArgumentError, f"rules is {path!r}", rules=path)


def test_nothing_given() -> None:
    refused(InvalidArgumentError, "give game, rom_path or rules")


# unknown bytes


def test_a_games_name_with_unknown_bytes_runs_after_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "Breakout.bin", HOME_MADE)
    for game in (None, "breakout"):
        with pytest.warns(UserWarning, match=md5_of(HOME_MADE)):
            spec = resolve(game, path)
        assert (spec.game_id, spec.rom, spec.rom_path) == ("breakout", HOME_MADE, path)
        assert spec.console == ConsoleProperties()
        assert spec.rules == load_games()["breakout"]
        kwargs = spec.to_core_kwargs()
        assert (kwargs["format"], kwargs["height"], kwargs["ystart"]) == ("auto", 210, 34)
        assert kwargs["controller_left"] == "joystick"


def test_unknown_bytes_are_never_run_as_another_game(tmp_path: Path) -> None:
    digest = md5_of(HOME_MADE)
    pong = write(tmp_path / "pong.bin", HOME_MADE)
    other = write(tmp_path / "home_made.bin", HOME_MADE)
    refused(UnsupportedRomError, "as 'breakout'", digest, game="breakout", rom_path=pong)
    refused(UnsupportedRomError, "as 'pong'", digest, "pass rules", game="pong", rom_path=other)
    refused(UnsupportedRomError, str(other), digest, "pass rules", rom_path=other)
    combat = write(tmp_path / "combat.bin", HOME_MADE)
    refused(UnsupportedRomError, digest, "pass rules", game="combat", rom_path=combat)


# folders


@pytest.mark.usefixtures("without_ale")
def test_search_names_what_was_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(RomNotFoundError, "no ROM of 'pong'", "in no folder", "CULE_ROM_DIR", game="pong")
    wrong = write(tmp_path / "roms" / "pong.a26", HOME_MADE)
    monkeypatch.setenv("CULE_ROM_DIR", str(wrong.parent))
    refused(RomNotFoundError, f"{wrong} is not it: its MD5 is {md5_of(HOME_MADE)}", game="pong")
    by_id = {status.rom_id: status for status in rom_status()}
    assert (by_id["pong"].path, by_id["pong"].md5_ok) == (wrong, False)
    assert (by_id["boxing"].path, by_id["boxing"].source) == (None, None)
    assert list(by_id) == list(load_roms())


@pytest.mark.parametrize("value", ["/no/such/folder", __file__])
def test_rom_dir_is_a_folder(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CULE_ROM_DIR", value)
    refused(RomNotFoundError, "CULE_ROM_DIR", value, game="pong")
    with pytest.raises(RomNotFoundError, match="CULE_ROM_DIR"):
        rom_status()


@pytest.mark.usefixtures("without_ale")
@pytest.mark.parametrize("name", ["x.bin", "deep/er/X.A26", "x.rom", "x.gz", "my_game.bin"])
def test_rom_dir_is_searched_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES + f'md5 = ["{md5_of(HOME_MADE)}"]')
    folder = tmp_path / "roms"
    write(folder / "decoy.bin", HOME_MADE[::-1])
    write(folder / "empty.bin", b"")
    write(folder / "notes.txt", HOME_MADE)
    monkeypatch.setenv("CULE_ROM_DIR", str(folder))
    refused(RomNotFoundError, "no ROM of 'my_game'", game="my_game", rules=rules)
    data = gzip.compress(HOME_MADE, mtime=0) if name.endswith("gz") else HOME_MADE
    path = write(folder / name, data)
    spec = resolve("MyGame", rules=rules)
    assert (spec.rom_path, spec.rom) == (path, HOME_MADE)
    # A file that changes is looked at again.
    write(path, HOME_MADE[::-1] * 2)
    refused(RomNotFoundError, "no ROM of 'my_game'", game="my_game", rules=rules)


# rules files


def test_rules_file_needs_little(tmp_path: Path, rules_file: Path) -> None:
    path = write(tmp_path / "anything.bin", HOME_MADE)
    for game in (None, "my_game", "MyGame"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            spec = resolve(game, path, rules_file)
        assert spec.game_id == "my_game"
        assert spec.title == "MyGame"
        assert spec.console == ConsoleProperties()
        assert spec.rules.minimal_actions == spec.rules.legal_actions == tuple(range(18))
        assert (spec.rules.modes, spec.rules.default_mode) == ((0,), 0)
        assert spec.rules.difficulties == (0, 1, 2, 3)
        assert spec.rules.starting_actions == ()
        assert (spec.rules.log_entries, spec.rules.short_frames) == (3072, False)
        assert spec.to_core_kwargs()["setup_code"] == []
        assert spec.to_core_kwargs()["paddle_max"] == 790196


def test_rules_file_with_a_byte_order_mark_and_illegal_actions(
    tmp_path: Path, rules_file: Path
) -> None:
    rules_file.write_bytes(b"\xef\xbb\xbf" + RULES.encode() + b"illegal_actions = [2]\r\n")
    spec = resolve(None, write(tmp_path / "a.bin", HOME_MADE), rules_file)
    assert spec.rules.minimal_actions == (0, 1, *range(3, 18))


def test_rules_file_sets_console_properties(tmp_path: Path, rules_file: Path) -> None:
    rules_file.write_text(
        RULES
        + 'format = "PAL"\nystart = 30\nheight = 228\ncontroller_left = "paddles"\n'
        + 'swap_ports = true\nleft_difficulty = "A"\nhmove_blanks = false\n'
        + "settings = { paddle_max = 1000 }\nstarting_actions = [1, 40, 0]\n"
    )
    kwargs = resolve(None, write(tmp_path / "a.bin", HOME_MADE), rules_file).to_core_kwargs()
    assert (kwargs["format"], kwargs["ystart"], kwargs["height"]) == ("PAL", 30, 228)
    assert (kwargs["controller_left"], kwargs["controller_right"]) == ("paddles", "joystick")
    assert (kwargs["swap_ports"], kwargs["swap_paddles"]) == (True, False)
    assert (kwargs["left_difficulty_a"], kwargs["right_difficulty_a"]) == (True, False)
    assert (kwargs["hmove_blanks"], kwargs["paddle_max"]) == (False, 1000)
    assert kwargs["starting_actions"] == [1, 40, 0]


def test_rules_file_with_several_tables(tmp_path: Path, rules_file: Path) -> None:
    rules_file.write_text(RULES + RULES.replace("my_game", "other"))
    path = write(tmp_path / "a.bin", HOME_MADE)
    assert resolve("other", path, rules_file).game_id == "other"
    refused(RulesError, "my_game, other", rom_path=path, rules=rules_file)
    refused(UnknownGameError, "'pong'", "my_game", game="pong", rom_path=path, rules=rules_file)


def test_rules_file_with_another_md5(tmp_path: Path, rules_file: Path) -> None:
    rules_file.write_text(RULES + f'md5 = ["{"0" * 32}"]')
    path = write(tmp_path / "a.bin", HOME_MADE)
    parts = ("is not the ROM of 'my_game'", md5_of(HOME_MADE), "0" * 32)
    refused(UnsupportedRomError, *parts, rom_path=path, rules=rules_file)


def test_rules_file_without_rom(rules_file: Path) -> None:
    refused(InvalidArgumentError, "rom_path is None", "md5", game="my_game", rules=rules_file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("state = { score = 0, reward = 0, terminal = 0 }", ""), "my_game: 'state' is missing"),
        (('lives = "3"', ""), "my_game: 'lives' is missing"),
        (('lives = "3"', "lives = 3"), "my_game: lives is 3; it must be a text"),
        (('lives = "3"', 'lives = "four"'), "my_game: lives, line 1: unknown name 'four'"),
        (("reward = ram(0x10)", "while 1: pass"), "my_game: step, line 1: while is only allowed"),
        ((", terminal = 0", ""), "state lacks 'terminal'"),
        (("score = 0", "score = true"), "state has score = True"),
        (("score = 0", "score = 2147483648"), "state has score = 2147483648"),
        (("", "stepp = 1"), "unknown key 'stepp'; did you mean 'step'?"),
        (("", "modes = [0, 1]"), "mode_setup is empty, but there are 2 modes"),
        (("", "modes = []"), "modes is empty"),
        (("", "modes = [1, 1]"), "modes must be in ascending order"),
        (("", "modes = [-1]"), "modes holds -1; allowed: 0.."),
        (("", "modes = [true]"), "modes holds True"),
        (("", "modes = 1"), "modes is 1; it must be a list"),
        (("", "default_mode = 4"), "default_mode is 4; allowed: 0"),
        (("", "difficulties = [4]"), "difficulties holds 4; allowed: 0..3"),
        (("", "minimal_actions = [18]"), "minimal_actions holds 18; allowed: 0..17"),
        (
            ("", "minimal_actions = [0, 1]\nillegal_actions = [0]"),
            "minimal_actions holds the illegal actions [0]",
        ),
        (("", "starting_actions = [41]"), "starting_actions holds 41"),
        (("", "settings = { paddle = 1 }"), "settings: unknown key 'paddle'"),
        (("", "settings = { paddle_max = 0 }"), "settings: paddle_max is 0"),
        (("", "settings = { log_entries = 3073 }"), "settings: log_entries is 3073; allowed: 1..3"),
        (("", "settings = { short_frames = 1 }"), "settings: short_frames is 1; it must be true"),
        (("", 'md5 = ["1234"]'), "md5 has '1234'"),
        (("", 'md5 = "1234"'), "md5 is '1234'; it must be a list"),
        (("", 'format = "SECAM"'), "format is 'SECAM'; allowed: auto, NTSC, PAL"),
        (("", "ystart = 65"), "ystart is 65; allowed: 0..64"),
        (("", "height = 400"), "height is 400; allowed: 160..256"),
        (("", 'controller_left = "keypad"'), "controller_left is 'keypad'"),
        (("", "swap_ports = 1"), "swap_ports is 1; it must be true or false"),
        (("[my_game]", ""), "is outside a table"),
        (("[my_game]", "[My-Game]"), "table name 'My-Game'"),
        (("[my_game]", "[[my_game"), "not a TOML file"),
    ],
)
def test_malformed_rules_files(
    tmp_path: Path, rules_file: Path, change: tuple[str, str], message: str
) -> None:
    old, new = change
    assert old in RULES
    rules_file.write_text(RULES.replace(old, new) if old else RULES + new)
    path = write(tmp_path / "a.bin", HOME_MADE)
    refused(RulesError, message, rom_path=path, rules=rules_file)


def test_unreadable_rules_files(tmp_path: Path, rules_file: Path) -> None:
    path = write(tmp_path / "a.bin", HOME_MADE)
    missing = tmp_path / "none.toml"
    refused(RulesError, "cannot read", str(missing), rom_path=path, rules=missing)
    refused(RulesError, "cannot read", rom_path=path, rules=tmp_path)
    rules_file.write_bytes(b"\xff\xfe")
    refused(RulesError, "not a TOML file", rom_path=path, rules=rules_file)
    rules_file.write_text("")
    refused(RulesError, "has no table", rom_path=path, rules=rules_file)
    rules_file.write_text("#" * 1_000_001)
    refused(RulesError, "larger than 1000000 bytes", rom_path=path, rules=rules_file)
    rules_file.write_text("a = " + "[" * 100_000)
    refused(RulesError, "not a TOML file", rom_path=path, rules=rules_file)


# with the ROMs of ale-py


@pytest.mark.ale
def test_every_bundled_rom_is_found(ale_roms: Path) -> None:
    for game_id in list_games():
        spec = resolve(game_id)
        info = load_roms()[game_id]
        assert spec.rom_path == ale_roms / f"{game_id}.bin"
        assert (spec.md5, len(spec.rom)) == (info.md5, info.size)
    assert all(status.md5_ok and status.source == "ale_py" for status in rom_status())
    assert [s.rom_id for s in rom_status() if not s.playable] == [
        "combat",
        "joust",
        "maze_craze",
        "warlords",
    ]


@pytest.mark.ale
@pytest.mark.parametrize("compress", [False, True])
def test_rom_dir_comes_first(
    ale_roms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    data = (ale_roms / "pong.bin").read_bytes()
    mine = write(
        tmp_path / "Video Olympics.A26", gzip.compress(data, mtime=0) if compress else data
    )
    write(tmp_path / "pong.bin", HOME_MADE)
    monkeypatch.setenv("CULE_ROM_DIR", str(tmp_path))
    spec = resolve("pong")
    assert (spec.rom_path, spec.rom) == (mine, data)
    assert resolve("boxing").rom_path == ale_roms / "boxing.bin"


@pytest.mark.ale
def test_a_known_rom_by_path(ale_roms: Path, tmp_path: Path) -> None:
    data = (ale_roms / "ms_pacman.bin").read_bytes()
    path = write(tmp_path / "whatever.rom", gzip.compress(data, mtime=0))
    for game in (None, "MsPacman"):
        spec = resolve(game, path)
        assert (spec.game_id, spec.rom) == ("ms_pacman", data)
        assert not spec.console.hmove_blanks


@pytest.mark.ale
def test_a_known_rom_is_never_run_as_another(ale_roms: Path, tmp_path: Path) -> None:
    pong = ale_roms / "pong.bin"
    refused(
        UnsupportedRomError,
        *("is the ROM of 'pong'", "not of 'breakout'", load_roms()["pong"].md5),
        game="breakout",
        rom_path=pong,
    )
    renamed = write(tmp_path / "breakout.bin", pong.read_bytes())
    refused(UnsupportedRomError, "is the ROM of 'pong'", game="breakout", rom_path=renamed)
    refused(UnsupportedRomError, "is the ROM of 'pong'", rom_path=renamed)
    assert resolve("pong", renamed).game_id == "pong"
    combat = write(tmp_path / "boxing.bin", (ale_roms / "combat.bin").read_bytes())
    refused(UnsupportedRomError, "is the ROM of 'combat'", rom_path=combat)
    refused(UnsupportedRomError, "no single-player rules", rom_path=ale_roms / "combat.bin")


@pytest.mark.ale
def test_rules_for_a_bundled_rom_keep_its_console(ale_roms: Path, rules_file: Path) -> None:
    rules_file.write_text(RULES.replace("my_game", "combat"))
    spec = resolve("combat", rules=rules_file)
    assert spec.rom_path == ale_roms / "combat.bin"
    assert (spec.console.ystart, spec.console.height) == (39, 256)
    rules_file.write_text(RULES.replace("my_game", "combat") + "ystart = 30")
    spec = resolve("combat", rules=rules_file)
    assert (spec.console.ystart, spec.console.height) == (30, 256)


@pytest.mark.ale
@pytest.mark.usefixtures("ale_roms")
def test_special_console_properties() -> None:
    kwargs = {game_id: resolve(game_id).to_core_kwargs() for game_id in list_games()}
    assert {g for g, k in kwargs.items() if not k["hmove_blanks"]} == {
        *("asteroids", "battle_zone", "darkchambers", "ms_pacman")
    }
    assert {g for g, k in kwargs.items() if k["controller_left"] == "paddles"} == {
        *("backgammon", "blackjack", "breakout", "casino", "kaboom", "pong")
    }
    assert {g for g, k in kwargs.items() if k["swap_ports"]} == {"surround", "wizard_of_wor"}
    assert {g for g, k in kwargs.items() if k["swap_paddles"]} == {"pong"}
    assert {g for g, k in kwargs.items() if k["left_difficulty_a"]} == {"amidar"}
    assert {g: (k["ystart"], k["height"]) for g, k in kwargs.items()} == {
        **dict.fromkeys(kwargs, (34, 210)),
        "carnival": (26, 214),
        "journey_escape": (34, 230),
        "pooyan": (26, 220),
        "qbert": (40, 210),
        "up_n_down": (30, 210),
    }
    assert {g: k["paddle_max"] for g, k in kwargs.items() if k["paddle_max"] != 790196} == {
        "backgammon": 1000000,
        "blackjack": 795000,
    }


@pytest.mark.ale
@pytest.mark.parametrize("named_by", ["argument", "variable", "default"])
def test_import(
    ale_roms: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    without_ale: None,
    named_by: str,
) -> None:
    collection = tmp_path / "collection"
    write(collection / "1.gz", gzip.compress((ale_roms / "pong.bin").read_bytes()))
    write(collection / "deep" / "2.a26", (ale_roms / "combat.bin").read_bytes())
    unknown = write(collection / "boxing.bin", HOME_MADE)
    target = tmp_path / "user data" / "cule" / "roms"
    if named_by != "default":
        target = tmp_path / "new" / "folder"
    if named_by == "variable":
        monkeypatch.setenv("CULE_ROM_DIR", str(target))
    argument = target if named_by == "argument" else None

    report = import_roms(collection, argument)
    assert report.target == target
    assert report.imported == {"pong": target / "pong.bin", "combat": target / "combat.bin"}
    assert (report.already_there, report.unrecognised) == ((), (str(unknown),))
    assert (target / "pong.bin").read_bytes() == (ale_roms / "pong.bin").read_bytes()
    assert sorted(p.name for p in target.iterdir()) == ["combat.bin", "pong.bin"]
    if named_by == "argument":
        monkeypatch.setenv("CULE_ROM_DIR", str(target))
    assert resolve("pong").rom_path == target / "pong.bin"

    assert set(import_roms(collection, argument).already_there) == {"pong", "combat"}
    write(target / "pong.bin", HOME_MADE)
    with pytest.raises(InvalidArgumentError, match=r"pong\.bin is there already"):
        import_roms(collection, argument)
    assert (target / "pong.bin").read_bytes() == HOME_MADE


def test_import_from_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="neither a folder nor a zip archive"):
        import_roms(tmp_path / "none")


@pytest.mark.ale
def test_import_from_zip_archives(
    ale_roms: Path, tmp_path: Path, without_ale: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members are read in memory: names that leave the folder do no harm, and bombs are cut off."""
    collection, target = tmp_path / "collection", tmp_path / "target"
    collection.mkdir()
    with zipfile.ZipFile(collection / "ROMS.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../outside.bin", (ale_roms / "pong.bin").read_bytes())
        archive.writestr("b/Combat.A26", (ale_roms / "combat.bin").read_bytes())
        archive.writestr("c/boxing.bin.gz", gzip.compress((ale_roms / "boxing.bin").read_bytes()))
        archive.writestr("home.bin", HOME_MADE)
        archive.writestr("bomb.bin", bytes(50_000_000))
        archive.writestr("bomb.gz", gzip.compress(bytes(50_000_000)))
        archive.writestr("inner.zip", b"")
        archive.writestr("readme.txt", "")
    write(collection / "broken.zip", b"PK\x03\x04" + bytes(100))
    write(collection / "all.rar", b"Rar!")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}

    report = import_roms(collection, target)
    assert sorted(report.imported) == ["boxing", "combat", "pong"]
    for game in report.imported:
        assert report.imported[game].read_bytes() == (ale_roms / f"{game}.bin").read_bytes()
    assert report.unrecognised == (f"{collection}/ROMS.zip/home.bin",)
    left_out = "\n".join(report.unread)
    for name in (
        "bomb.bin: holds more",
        "bomb.gz: holds more",
        "inner.zip",
        "broken.zip",
        "all.rar",
    ):
        assert name in left_out
    assert len(report.unread) == 5
    made = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert made == set(report.imported.values())

    monkeypatch.setattr("cule.games.roms.MAX_ZIP_MEMBERS", 1)
    again = import_roms(collection / "ROMS.zip", tmp_path / "other")
    assert list(again.imported) == ["pong"]
    assert "only 1 members were read, 7 left out" in again.unread[0]
