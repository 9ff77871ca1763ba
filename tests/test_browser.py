"""Pages as a browser shows them: drawn, moving, readable in light and dark, narrow and wide, and offline."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

import sase
from sase.pictures.picture import RED

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
EXAMPLES = Path(__file__).parent.parent / "examples"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no Chromium here: install the packages chromium and chromium-driver"
)

QUIET = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in f"--headless=new --no-sandbox --disable-sync {QUIET}".split():
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {
        "offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0,
    })  # fmt: skip
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `--html` writes of a run, and of an analysis, on one page."""
    from sase.pictures.report import report

    readings = spark.read.parquet(str(EXAMPLES / "data/retail.parquet")).where("id in (1002, 1017, 1088)")
    query = sase.compile(
        (EXAMPLES / "shoplifters.sase").read_text(),
        sase.Catalog.load(EXAMPLES / "retail.toml"),
        filename="lifters.sase",
    )
    path = tmp_path_factory.mktemp("pages") / "report.html"
    path.write_text(report(query, query.stages(readings), readings), encoding="utf-8")
    return path


def opened(browser: WebDriver, page: Path, width: int = 1000, dark: bool = False) -> WebDriver:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    ready = "return [...document.querySelectorAll('div')].some(place => place.vegaView)"
    WebDriverWait(browser, 20).until(lambda driver: driver.execute_script(ready))
    browser.execute_script("window.view = [...document.querySelectorAll('div')].find(place => place.vegaView).vegaView")
    return browser


def domain(browser: WebDriver) -> list[float]:
    return browser.execute_script("return view.scale('x').domain().map(Number)")


def mark(browser: WebDriver, label: str, among: str = "[aria-label]") -> Any:
    """The drawn element of the first event or arc whose description has this text."""
    find = "return [...document.querySelectorAll(%r)].find(e => e.getAttribute('aria-label')?.includes(%r))"
    return browser.execute_script(find % (among, label))


def test_every_picture_is_drawn_without_a_word_on_the_console(browser: WebDriver, page: Path) -> None:
    opened(browser, page)
    assert browser.execute_script("return [...document.querySelectorAll('h2')].map(e => e.textContent)") == [
        "Matches in time",
        "Matches",
        "What got through each step",
        "The pattern as an automaton",
        "The plan",
    ]
    assert browser.execute_script("return document.querySelectorAll('svg').length") == 4
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_pointing_at_an_event_or_an_arc_tells_what_it_is(browser: WebDriver, page: Path) -> None:
    opened(browser, page)

    def pointed(label: str, among: str = "[aria-label]") -> str:
        heading = browser.execute_script("return document.querySelector('h1')")
        ActionChains(browser).move_to_element(heading).move_to_element(mark(browser, label, among)).perform()
        seen = "return document.querySelector('#vg-tooltip-element.visible')?.textContent || ''"
        return WebDriverWait(browser, 10).until(lambda driver: driver.execute_script(seen))

    event = pointed("time: 2026-03-02 09:41:13")
    assert "EXIT-READING" in event and "1017" in event and "z" in event
    cross = pointed("time: 2026-03-02 10:12:00", f"[fill='{RED}']")
    assert "COUNTER-READING" in cross
    close_behind = pointed("time: 2026-03-02 10:15:27")
    assert "EXIT-READING" in close_behind


def test_the_wheel_zooms_dragging_moves_and_a_double_click_resets(browser: WebDriver, page: Path) -> None:
    opened(browser, page)
    whole = domain(browser)
    middle = mark(browser, "time: 2026-03-02 09:41:13")
    ActionChains(browser).scroll_from_origin(ScrollOrigin.from_element(middle), 0, -400).perform()
    WebDriverWait(browser, 10).until(lambda driver: domain(driver) != whole)
    zoomed = domain(browser)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    plot = browser.execute_script("return view.container().querySelector('svg')")
    ActionChains(browser).move_to_element(plot).click_and_hold().move_by_offset(-60, 0).release().perform()
    WebDriverWait(browser, 10).until(lambda driver: domain(driver)[0] > zoomed[0])
    moved = domain(browser)
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
    ActionChains(browser).move_to_element(plot).double_click().perform()
    WebDriverWait(browser, 10).until(lambda driver: domain(driver) == whole)


@pytest.mark.parametrize("width", [380, 1400])
def test_the_page_fits_narrow_and_wide(browser: WebDriver, page: Path, width: int) -> None:
    opened(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    plot = browser.execute_script("return view.container().getBoundingClientRect().width")
    assert 0.7 * min(width, 960) < plot <= width
    assert browser.execute_script("return view.width()") > 150
    label = """const svg = view.container().querySelector('svg').getBoundingClientRect();
        const name = [...document.querySelectorAll('text')].find(e => e.textContent === 'id 1017');
        return [name.getBoundingClientRect().left - svg.left, name.closest('[clip-path]') !== null];"""
    left, clipped = browser.execute_script(label)
    assert 0 <= left < 20 and not clipped
    legend = """const svg = view.container().querySelector('svg').getBoundingClientRect();
        return [...document.querySelectorAll('.role-legend-entry text')].map(e => e.getBoundingClientRect())
            .every(e => svg.left <= e.left && e.right <= svg.right && svg.top <= e.top);"""
    assert browser.execute_script(legend)


@pytest.mark.parametrize("width", [380, 1400])
def test_no_text_is_cut_off_and_numbers_are_seen_without_scrolling(browser: WebDriver, page: Path, width: int) -> None:
    opened(browser, page, width)
    places = """return [...document.querySelectorAll('svg[role=img]')].map(svg => {
        const edge = svg.getBoundingClientRect(), frame = svg.closest('.picture').getBoundingClientRect();
        return [svg.getAttribute('aria-label'), [...svg.querySelectorAll('text')].map(text => {
            const place = text.getBoundingClientRect();
            return [text.textContent, edge.left <= place.left && place.right <= edge.right, place.right <= frame.right];
        })]})"""
    pictures = dict(browser.execute_script(places))
    assert pictures.keys() >= {"What got through each step", "The pattern as an automaton", "The plan"}
    for texts in pictures.values():
        assert [text for text, whole, _ in texts if text and not whole] == []
    numbers = [seen for text, _, seen in pictures["What got through each step"] if re.fullmatch(r"−?[\d,]+", text)]
    assert len(numbers) > 10 and all(numbers)


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_in_light_and_dark(browser: WebDriver, page: Path, dark: bool) -> None:
    """The contrast of all text in pictures with the page is at least 3 to 1, as WCAG asks of graphics."""
    opened(browser, page, dark=dark)
    colours = browser.execute_script("""
        const text = [...document.querySelectorAll('svg text')].filter(e => e.textContent.trim());
        return [getComputedStyle(document.body).backgroundColor,
                [...new Set(text.map(e => getComputedStyle(e).fill))]];
    """)
    background, inks = luminance(colours[0]), [luminance(ink) for ink in colours[1]]
    assert background < 0.05 if dark else background > 0.9
    assert len(inks) > 1
    assert min((max(ink, background) + 0.05) / (min(ink, background) + 0.05) for ink in inks) >= 3


def luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
