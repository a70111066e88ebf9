"""Recordings of an `ALEInterface`: a picture before every frame, and the sound of all frames.

The settings ``record_screen_dir``, ``sound`` and ``record_sound_filename`` are those of ale-py, and
so are the names and contents of the pictures and the format of the sound. ale-py records what its
sound card has played meanwhile; this records every frame, at the speed of a console.
"""

from __future__ import annotations

import logging
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.errors import SettingError
from cule.envs.png import encode_png
from cule.errors import shown
from cule.files import check_no_device

#: Width of a saved screenshot pixel: the console's pixels are about twice as wide as high.
PNG_PIXEL_WIDTH = 2

#: Samples per second: those of a frame, 60 times.
SAMPLE_RATE = 60 * _core.SOUND_SAMPLES

_log = logging.getLogger("cule")


def screen_png(screen: NDArray[np.uint8]) -> bytes:
    """A PNG file of a screen ``[H, 160, 3]``, each pixel twice as wide as high."""
    return encode_png(np.repeat(screen, PNG_PIXEL_WIDTH, axis=1))


class Recording:
    """The recording of one loaded ROM. Files that cannot be written are logged and left out."""

    def __init__(self, screen_dir: str, sound_file: str) -> None:
        """Check where files are to be written.

        Args:
            screen_dir: Folder of ``000000.png``, ``000001.png`` and so on; empty: no pictures.
            sound_file: WAV file; empty: no sound.

        Raises:
            SettingError: There is no such folder.
        """
        for name, value, folder in (
            ("record_screen_dir", screen_dir, Path(screen_dir)),
            ("record_sound_filename", sound_file, Path(sound_file).parent),
        ):
            if value and not folder.is_dir():
                raise SettingError(
                    f"{name} is {shown(value)}; there is no folder {shown(str(folder))}"
                )
        self.on_screen = self._add_screen if screen_dir else None
        self.on_sound = self._add_sound if sound_file else None
        self._screen_dir, self._sound_file = Path(screen_dir), sound_file
        self._num_screens = 0
        self._early_sound: list[bytes] = []  # of frames that loadROM itself plays
        self._wave: wave.Wave_write | None = None

    def open(self) -> None:
        """Start to write sound; the recording before must have been closed."""
        if not self._sound_file:
            return
        try:
            check_no_device(self._sound_file)
            self._wave = wave.open(self._sound_file, "wb")  # noqa: SIM115  # stays open
            self._wave.setparams((1, 1, SAMPLE_RATE, 0, "NONE", "not compressed"))
            self._wave.writeframes(b"".join(self._early_sound))
        except OSError as error:
            _log.error("%s cannot be written: %s", self._sound_file, error.strerror or error)

    def close(self) -> None:
        """Complete the files."""
        if self._wave is not None:
            self._wave.close()

    def _add_screen(self, screen: NDArray[np.uint8]) -> None:
        path = self._screen_dir / f"{self._num_screens:06}.png"
        self._num_screens += 1
        try:
            check_no_device(path)
            path.write_bytes(screen_png(screen))
        except OSError as error:
            _log.error("%s cannot be written: %s", path, error.strerror or error)

    def _add_sound(self, samples: NDArray[np.uint8]) -> None:
        if self._wave is None:
            self._early_sound.append(samples.tobytes())
            return
        try:
            self._wave.writeframes(samples.tobytes())
        except OSError as error:
            _log.error("%s cannot be written: %s", self._sound_file, error.strerror or error)
