"""`cule watch` in headless Chromium: clicks, keys, several viewers.

With ``CULE_WATCH_SCREENSHOT=docs/images/watch.png`` the page is kept as a picture.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cule import AtariVectorEnv
from cule.watch.policies import PlayOptions, open_random
from tests.support.served import serve

webdriver = pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.ale,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium or chromedriver is missing"),
]

#: RAM of breakout: the position of the paddle, and the height of the ball, 0 where it is out of play.
PADDLE, BALL = 72, 101

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--window-size=900,700",
)

#: The pixels of the canvas of one environment, as numbers.
PIXELS = """
const canvas = document.querySelectorAll("canvas")[arguments[0]];
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
return [canvas.height, canvas.width, Array.from(data)];
"""


@contextlib.contextmanager
def browser(url: str, folder: Path, phone: dict[str, Any] | None = None) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    if phone is not None:
        options.add_experimental_option("mobileEmulation", phone)
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        driver.get(url)
        yield driver
    finally:
        driver.quit()


def wait_for(condition: Callable[[], Any], limit_s: float = 20.0) -> Any:
    end = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end, "the page did not follow"
        time.sleep(0.02)
    return found


def tiles(driver: Any) -> list[Any]:
    return driver.find_elements(By.CSS_SELECTOR, "main button")


def classes(driver: Any) -> list[str]:
    return [tile.get_attribute("class") for tile in tiles(driver)]


def press(driver: Any, *keys: str) -> None:
    chain = webdriver.ActionChains(driver)
    for key in keys:
        chain.send_keys(key)
    chain.perform()


def pixels(driver: Any, index: int) -> np.ndarray:
    height, width, data = driver.execute_script(PIXELS, index)
    return np.array(data, np.uint8).reshape(height, width, 4)[..., :3]


def make_env() -> AtariVectorEnv:
    return AtariVectorEnv(
        "breakout",
        4,
        frameskip=1,
        full_action_space=True,
        reward_clipping=False,
        autoreset_mode="SameStep",
        render_mode="rgb_array",
        num_threads=1,
    )


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[Any, Any, Any]]:
    """A paused session, and the pages of two viewers, each in a browser of its own."""
    with serve(make_env()) as served:
        url = f"http://127.0.0.1:{served.server.server_port}/"
        with browser(url, tmp_path / "a") as first, browser(url, tmp_path / "b") as second:
            for page in (first, second):
                wait_for(lambda page=page: len(tiles(page)) == 4)
            yield served, first, second


def test_pictures_are_the_screens(pages: tuple[Any, Any, Any]) -> None:
    served, first, second = pages
    for _ in range(5):
        press(first, "n")
    for page in (first, second):
        for index in range(4):
            wait_for(
                lambda page=page, index=index: np.array_equal(
                    pixels(page, index), served.env.screens("rgb", [index])[0]
                )
            )


def test_clicks_take_and_leave_an_environment(pages: tuple[Any, Any, Any]) -> None:
    _, first, second = pages
    tiles(first)[1].click()
    wait_for(lambda: classes(first) == ["", "you", "", ""])
    wait_for(lambda: classes(second) == ["", "another", "", ""])
    tiles(second)[1].click()  # taken
    wait_for(lambda: second.find_element(By.ID, "problem").text)
    tiles(second)[3].click()
    wait_for(lambda: classes(first) == ["", "you", "", "another"])
    tiles(first)[1].click()
    wait_for(lambda: classes(second) == ["", "", "", "you"])
    press(second, Keys.ESCAPE)
    wait_for(lambda: classes(first) == [""] * 4)


def test_keys_move_the_paddle(pages: tuple[Any, Any, Any]) -> None:
    served, first, _ = pages
    tiles(first)[2].click()
    wait_for(lambda: classes(first)[2] == "you")
    positions = [served.env.ram[:, PADDLE].astype(int)]
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_LEFT):
        webdriver.ActionChains(first).key_down(key).perform()
        for _ in range(12):
            press(first, "n")
        webdriver.ActionChains(first).key_up(key).perform()
        positions.append(rest_of(served.env, positions[-1]))
    (_, _, right, _), (_, _, left, _) = np.diff(positions, axis=0)
    assert right > 0 > left
    assert not np.diff(positions, axis=0)[:, [0, 1, 3]].any()


def rest_of(env: AtariVectorEnv, before: np.ndarray) -> np.ndarray:
    """The positions of all paddles, once they have moved and stand still."""
    wait_for(lambda: (env.ram[:, PADDLE] != before).any())
    while True:
        found = env.ram[:, PADDLE].astype(int)
        time.sleep(0.5)
        if (env.ram[:, PADDLE] == found).all():
            return found


def test_a_page_follows_a_running_session(pages: tuple[Any, Any, Any]) -> None:
    served, first, second = pages
    tiles(first)[0].click()
    wait_for(lambda: classes(second)[0] == "another")
    press(first, "p")
    wait_for(lambda: "emulated frames/s" in second.find_element(By.ID, "rates").text)
    wait_for(lambda: served.env.ram[0, BALL] == 0)
    press(first, Keys.SPACE)
    wait_for(lambda: served.env.ram[0, BALL] != 0)
    earlier = pixels(second, 0)
    wait_for(lambda: not np.array_equal(pixels(second, 0), earlier))
    press(second, "p")
    wait_for(lambda: "paused" in first.find_element(By.ID, "rates").text)


#: A caption whose score has three digits.
HAS_SCORE = re.compile(r"score \d{3}")


def captions(driver: Any) -> list[str]:
    return [part.text for part in driver.find_elements(By.CLASS_NAME, "caption")]


def test_the_picture_of_a_running_game_has_scores(tmp_path: Path) -> None:
    env, policy = open_random(PlayOptions(game="ms_pacman", num_envs=6, seed=1))
    with serve(env, policy, speed=8.0) as served:
        url = f"http://127.0.0.1:{served.server.server_port}/"
        with browser(url, tmp_path / "a") as page:
            wait_for(lambda: len(tiles(page)) == 6)
            press(page, "p")
            wait_for(lambda: all(map(HAS_SCORE.search, captions(page))), 100)
            tiles(page)[1].click()
            wait_for(lambda: classes(page)[1] == "you")
            wait_for(lambda: "emulated frames/s" in page.find_element(By.ID, "rates").text)
            picture = Path(os.environ.get("CULE_WATCH_SCREENSHOT") or tmp_path / "watch.png")
            assert page.save_screenshot(str(picture))
            assert picture.stat().st_size > 5_000


#: A phone held upright.
PHONE = {"width": 390, "height": 844, "pixelRatio": 2.0, "touch": True}

#: Puts a finger on the button of a key, or takes it away.
TOUCH = """
const key = document.querySelector(`#pad [data-key=${arguments[0]}]`);
const box = key.getBoundingClientRect();
const touch = new Touch({
  identifier: 1, target: key, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2,
});
const touches = arguments[1] === "touchstart" ? [touch] : [];
key.dispatchEvent(new TouchEvent(arguments[1], { touches, bubbles: true, cancelable: true }));
"""


def test_a_phone_has_captions_and_a_joystick(tmp_path: Path) -> None:
    with serve(make_env()) as served:
        url = f"http://127.0.0.1:{served.server.server_port}/"
        with browser(url, tmp_path / "a", {"deviceMetrics": PHONE}) as page:
            wait_for(lambda: len(tiles(page)) == 4)
            for part in page.find_elements(By.CLASS_NAME, "caption"):
                wait_for(lambda part=part: part.text)
                size = page.execute_script(
                    "const c = arguments[0]; return [c.scrollWidth, c.clientWidth, c.scrollHeight, "
                    "c.clientHeight]",
                    part,
                )
                assert size[0] <= size[1]
                assert size[2] <= size[3]
            pad = page.find_element(By.ID, "pad")
            assert not pad.is_displayed()
            tiles(page)[0].click()
            wait_for(pad.is_displayed)
            width = page.execute_script("return document.documentElement.scrollWidth")
            assert width <= PHONE["width"]
            before = served.env.ram[0, PADDLE]
            page.find_element(By.CSS_SELECTOR, "#pad [data-path='/pause']").click()
            page.execute_script(TOUCH, "right", "touchstart")
            wait_for(lambda: served.env.ram[0, PADDLE] > before)
            page.execute_script(TOUCH, "right", "touchend")
            wait_for(lambda: "held" not in pad.get_attribute("innerHTML"))
            if folder := os.environ.get("CULE_PHONE_SCREENSHOT"):
                assert page.save_screenshot(folder)
