"""A video of one environment of an evaluation, in true colours, as MP4."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cule.agents.self_play import SelfPlayEnv
from cule.envs import AtariVectorEnv, FrameStep
from cule.envs.checks import to_numpy
from cule.errors import InvalidArgumentError, VideoError, shown
from cule.files import check_writable, open_part, replace_bytes, written_and_free
from cule.lazy import needs
from cule.reading import read_file

#: Encoder, which pictures ``[H, W, 3]`` are sent to.
Writer = Generator[None, NDArray[np.uint8] | None, None]

#: Rows and columns of the video per pixel of the screen, which is twice as wide as high.
ROWS, COLUMNS = 2, 4


class RecordedEnv:
    """Environments whose first one is recorded for some episodes; a context manager.

    It is a `cule.agents.parts.envs.FrameEnv`. Each picture is the screen after a step.
    Skipped frames are not in the video, nor is the last step of an episode, after which the screen
    shows the next episode.
    """

    def __init__(self, env: AtariVectorEnv | SelfPlayEnv, path: Path, *, episodes: int) -> None:
        """Start recording with the next reset."""
        check_video_path(path)
        self._env, self._path, self._episodes_left = env, path, episodes
        self._part: IO[bytes] | None = None  # which the encoder writes
        self._writer: Writer | None = None
        self._error: VideoError | None = None  # after which nothing is recorded

    # Any: whatever type the attribute of the environment has.
    def __getattr__(self, name: str) -> Any:
        """Delegate to the environment."""
        return getattr(self._env, name)

    def __enter__(self) -> RecordedEnv:
        """Enter the context; `reset` starts recording."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop recording; delete a video that was not finished."""
        self._stop()
        if self._part is not None:
            self._part.close()
            Path(self._part.name).unlink(missing_ok=True)

    def reset(self, *, seed: int | None = None) -> tuple[object, object]:
        """Reset the environments and start recording."""
        result = self._env.reset(seed=seed)
        self._add_picture()
        return result

    def step_frames(self, actions: Tensor, out: Tensor | None = None) -> FrameStep:
        """Step the environments and record the screen."""
        step = self._env.step_frames(actions, out=out)
        if self._episodes_left:
            self._episodes_left -= bool(step.terminated[0] | step.truncated[0])
            if self._episodes_left:
                self._add_picture()
        return step

    def _add_picture(self) -> None:
        if self._error is not None:
            return
        screen = to_numpy(self._env.screens("rgb", [0]))[0]
        picture = screen.repeat(ROWS, axis=0).repeat(COLUMNS, axis=1)
        try:
            with self._as_video_errors():
                if self._writer is None:
                    self._writer = self._open(picture.shape[1], picture.shape[0])
                self._writer.send(picture)
        except VideoError as error:  # for `finish`: the episodes continue
            self._error = error

    def _open(self, width: int, height: int) -> Writer:
        import imageio_ffmpeg

        self._part = open_part(self._path)  # raises an error that says why; the encoder is quiet
        writer: Writer = imageio_ffmpeg.write_frames(
            self._part.name,
            (width, height),
            fps=self._env.frame_rate / self._env.config.frameskip,
            macro_block_size=2,
            ffmpeg_log_level="quiet",
            output_params=["-f", "mp4"],
        )
        writer.send(None)
        return writer

    def finish(self) -> None:
        """Write the video to its final place.

        Raises:
            VideoError: It could not be written, now or during the episodes.
        """
        self._stop()
        if self._error is not None:
            raise self._error
        with self._as_video_errors():
            film = b"" if self._part is None else read_file(self._part.name)
            # The exit status of the encoder is not available.
            if not is_complete(film):
                raise OSError("the encoder did not finish")
            replace_bytes(self._path, film)

    def _stop(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextlib.contextmanager
    def _as_video_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, IndexError) as error:
            # The encoder has closed the pipe, or imageio-ffmpeg looks at the text of a silent one.
            signs = (BrokenPipeError, IndexError)
            stopped = isinstance(error, signs) or isinstance(error.__context__, signs)
            reason = "the encoder stopped" if stopped else str(error).partition("\n")[0]
            part = self._path if self._part is None else Path(self._part.name)
            raise VideoError(
                f"video is {shown(str(self._path))}; it could not be written: {reason}; "
                f"{written_and_free(part)}"
            ) from None


def is_complete(film: bytes) -> bool:
    """Whether all boxes of an MP4 file are complete, with its index (ISO/IEC 14496-12, 4.2)."""
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
    """Require that a video can be made.

    Raises:
        InvalidArgumentError: The name does not end with .mp4.
        MissingPackageError, VideoError: There is no encoder.
        StorageError: The file cannot be written.
    """
    if path.suffix.lower() != ".mp4":
        raise InvalidArgumentError(f"video is {shown(str(path))}; it must be a file NAME.mp4")
    with needs("cule[video]"):
        import imageio_ffmpeg
    try:
        imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise VideoError(f"video is {shown(str(path))}, and there is no encoder: {error}") from None
    check_writable(path)
