"""What a viewer can do wrong; none of it reaches the consoles."""

from __future__ import annotations

from http import HTTPStatus

from cule.errors import CuleError


class RequestError(CuleError, ValueError):
    """A viewer's request is refused; the message says why in a sentence.

    Attributes:
        status: Of the HTTP response.
    """

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        """Make the error.

        Args:
            message: What is wrong, and what is allowed.
            status: Of the HTTP response.
        """
        super().__init__(message)
        self.status = status
