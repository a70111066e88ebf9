"""A video of one console of an evaluation, in true colours, as MP4."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from cule.agents.errors import VideoError
from cule.envs import AtariVectorEnv, FrameStep
from cule.envs.arrays import to_numpy
from cule.errors import InvalidArgumentError, MissingPackageError

#: Rows and columns of the video for a pixel of the screen, which is twice as wide as high.
ROWS, COLUMNS = 2, 4


class RecordedEnv:
    """Environments whose first console is filmed until it has finished some episodes; a context.

    It has what an evaluation asks of environments (`cule.agents.environment.FrameEnv`). A picture
    is the screen after a step; what only the frames between show is not in the video, nor what the
    last step of an episode shows, which begins the next one.
    """

    def __init__(self, env: AtariVectorEnv, path: Path, *, episodes: int) -> None:
        """Begin to film with the next reset.

        Args:
            env: Consoles; they stay the caller's.
            path: Where to, ``NAME.mp4``; the folder is made where it is missing.
            episodes: Episodes to film.

        Raises:
            InvalidArgumentError: The file's name does not end in .mp4.
            MissingPackageError: imageio-ffmpeg is not installed.
        """
        check_video_path(path)
        self._env, self._path, self._episodes_left = env, path, episodes
        self._part = path.with_name(f".{path.stem}.part.mp4")
        self._writer: Generator[None, Any, None] | None = None

    def __getattr__(self, name: str) -> Any:
        """What is not here is the environment's."""
        return getattr(self._env, name)

    def __enter__(self) -> RecordedEnv:
        """Nothing; see `reset`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the film; one that is not whole is deleted."""
        self._stop()
        self._part.unlink(missing_ok=True)

    def reset(self, *, seed: Any = None) -> tuple[Any, Any]:
        """As the environment's; the film begins."""
        result = self._env.reset(seed=seed)
        self._film()
        return result

    def step_frames(self, actions: Any, out: Any = None) -> FrameStep:
        """As the environment's."""
        step = self._env.step_frames(actions, out=out)
        if self._episodes_left:
            self._episodes_left -= bool(step.terminated[0] | step.truncated[0])
            if self._episodes_left:
                self._film()
            else:
                self._finish()
        return step

    def _film(self) -> None:
        screen = to_numpy(self._env.screens("rgb", [0]))[0]
        picture = screen.repeat(ROWS, axis=0).repeat(COLUMNS, axis=1)
        with self._as_video_errors():
            if self._writer is None:
                self._writer = self._open(picture.shape[1], picture.shape[0])
            self._writer.send(picture)

    def _open(self, width: int, height: int) -> Generator[None, Any, None]:
        import imageio_ffmpeg

        self._path.parent.mkdir(parents=True, exist_ok=True)
        writer: Generator[None, Any, None] = imageio_ffmpeg.write_frames(
            str(self._part),
            (width, height),
            fps=self._env.frame_rate / self._env.config.frameskip,
            macro_block_size=2,
            ffmpeg_log_level="error",
        )
        writer.send(None)
        return writer

    def _finish(self) -> None:
        """Put the film in place, if it is whole."""
        self._stop()
        with self._as_video_errors():
            # The encoder's exit status is not to be had.
            if not is_whole(self._part.read_bytes()):
                raise OSError("the encoder did not finish it")
            os.replace(self._part, self._path)

    def _stop(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextlib.contextmanager
    def _as_video_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, IndexError) as error:
            reason = str(error).partition("\n")[0]
            raise VideoError(
                f"video is {str(self._path)!r}; it could not be made: {reason}"
            ) from None


def is_whole(film: bytes) -> bool:
    """Whether an MP4 file ends where its boxes do, its index among them (ISO/IEC 14496-12, 4.2)."""
    at, names = 0, set()
    while at < len(film):
        size = int.from_bytes(film[at : at + 4], "big")
        names.add(film[at + 4 : at + 8])
        if size == 1:  # too large for 32 bits
            size = int.from_bytes(film[at + 8 : at + 16], "big")
        if size < 8:
            return False
        at += size
    return at == len(film) and b"moov" in names


def check_video_path(path: Path) -> None:
    """Refuse a video that cannot be made.

    Raises:
        InvalidArgumentError: The file's name does not end in .mp4.
        MissingPackageError: imageio-ffmpeg is not installed.
    """
    if path.suffix.lower() != ".mp4":
        raise InvalidArgumentError(f"video is {str(path)!r}; it must be a file NAME.mp4")
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise MissingPackageError(
            "a video needs imageio-ffmpeg; pip install 'cule[video]'"
        ) from None
