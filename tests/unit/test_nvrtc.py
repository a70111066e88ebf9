"""Which NVRTC is used, and what it does (cule.envs.nvrtc)."""

from __future__ import annotations

import pytest

from cule.envs.nvrtc import Toolkit, Version, choose_toolkit, compile_code
from cule.errors import DeviceError
from tests.support.compilers import VERSIONS, toolkit_of

KERNEL = 'extern "C" __global__ void add(int* x) { *x += 1; }'


def kit(version: Version) -> Toolkit:
    return Toolkit("libnvrtc.so", None, version, (80, 90))


@pytest.mark.parametrize(
    ("torch_cuda", "driver", "chosen"),
    [
        ("12.8", (13, 0), (12, 9)),  # of torch's major version
        ("12.8", (12, 8), (12, 8)),  # not newer than the driver
        ("12.8", (12, 4), (12, 9)),  # only newer ones: machine code loads all the same
        ("13.0", (12, 9), (12, 9)),  # the driver refuses 13
        ("13.0", (13, 2), (13, 0)),
        ("13.0", (14, 0), (13, 5)),
        ("11.8", (12, 9), (12, 9)),  # none of torch's
        (None, None, (13, 5)),
    ],
)
def test_choice(torch_cuda: str | None, driver: Version | None, chosen: Version) -> None:
    kits = tuple(kit(version) for version in ((12, 8), (13, 5), (12, 9), (13, 0)))
    for order in (kits, kits[::-1]):
        found = choose_toolkit(order, torch_cuda, driver)
        assert found is not None
        assert found.version == chosen


def test_no_choice() -> None:
    assert choose_toolkit((), "13.0", (13, 0)) is None


@pytest.mark.compilers
class TestWithNvrtc:
    """Of every version that is tested."""

    @pytest.fixture(params=VERSIONS)
    def toolkit(self, request: pytest.FixtureRequest) -> Toolkit:
        return toolkit_of(request.param)

    def test_machine_code(self, toolkit: Toolkit) -> None:
        assert 90 in toolkit.architectures
        assert compile_code(toolkit, KERNEL, [], 90).result().startswith(b"\x7fELF")

    def test_a_newer_architecture_gets_ptx_of_the_newest(self, toolkit: Toolkit) -> None:
        newest = max(toolkit.architectures)
        text = compile_code(toolkit, KERNEL, [], newest + 100).result()
        assert f".target sm_{newest}".encode() in text
        assert b".visible .entry add" in text

    @pytest.mark.parametrize(
        ("source", "architecture", "message"),
        [("int x = undeclared_thing;", 90, "undeclared_thing"), (KERNEL, 3, "sm_3")],
    )
    def test_what_it_refuses_is_said(
        self, toolkit: Toolkit, source: str, architecture: int, message: str
    ) -> None:
        with pytest.raises(DeviceError, match=message):
            compile_code(toolkit, source, [], architecture).result()

    def test_a_crash_is_an_error(self, toolkit: Toolkit) -> None:
        job = compile_code(toolkit, KERNEL, [], 90)
        job._process.kill()
        with pytest.raises(DeviceError, match="exit status -9"):
            job.result()
