"""Errors of viewers' requests; none of them affects the environments."""

from __future__ import annotations

from http import HTTPStatus

from cule.errors import CuleError


class RequestError(CuleError, ValueError):
    """A request is invalid; the message says why and what is allowed.

    Attributes:
        status: Status of the HTTP response.
    """

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        """Create the error of a response."""
        super().__init__(message)
        self.status = status
