"""The status page in a real browser: what a person sees, does and hears read out."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect
from tests.guarding import TOKEN, guarded, machine, write_config
from tests.sidecars import specgauge
from tests.test_trend import START, view

from specgauge.serve.trend import STRETCHES

pytestmark = pytest.mark.slow

SERIOUS = {"serious", "critical"}
PATIENCE = 60_000.0
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An open page, everything its console complained of, and every address it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def faults(self) -> list[tuple[str, str]]:
        """Let axe-core look for what keeps people from using the page."""
        await self.page.evaluate((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
        found = await self.page.evaluate("() => axe.run()")
        return [
            (one["id"], str([node["target"] for node in one["nodes"]]))
            for one in found["violations"]
            if one["impact"] in SERIOUS
        ]


@asynccontextmanager
async def browsing(url: str, **context: Any) -> AsyncIterator[Seen]:
    """Open a page in Debian's Chromium."""
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not there: install Debian's chromium")
        pytest.skip("needs chromium")
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        # Only axe needs this: the page's own policy forbids scripts put in from outside.
        opened = await browser.new_context(bypass_csp=True, **context)
        page = await opened.new_page()
        page.set_default_timeout(PATIENCE)
        seen = Seen(page=page)
        page.on(
            "console",
            lambda said: seen.complaints.append(said.text) if said.type == "error" else None,
        )
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("request", lambda request: seen.asked.append(request.url))
        await page.goto(url)
        yield seen
        await browser.close()


async def test_the_demo_is_told() -> None:
    """Speculation pays, then costs, and the guard flips: the open page says each in turn."""
    async with (
        specgauge("demo", "--speed", "20", "--listen", "127.0.0.1:0") as demo,
        browsing(await demo.listening(), viewport=DESKTOP) as seen,
    ):
        say = expect(seen.page.locator("#sentence"))
        await say.to_contain_text("Speculation pays", timeout=PATIENCE)
        await expect(seen.page.locator("#phase")).to_have_text("active")
        await expect(seen.page.locator("#flag")).to_contain_text("the recorded engine")
        assert await seen.faults() == []
        for chart in ("speedup", "tpot", "positions", "steps"):
            plot = seen.page.locator(f"#{chart} .plot")
            await expect(plot.locator("canvas")).to_be_visible()
            assert await plot.get_attribute("aria-label"), chart
        await seen.page.locator("#positions summary").click()
        await expect(seen.page.locator("#positions tbody tr")).to_have_count(4)
        await expect(seen.page.locator("#phase")).to_have_text("fallback", timeout=PATIENCE)
        await expect(seen.page.locator("#past")).to_contain_text("From active to fallback")
        await expect(seen.page.locator("#flag")).to_contain_text("off")
    assert seen.complaints == []
    hosts = {url.split("/")[2].partition(":")[0] for url in seen.asked if url.startswith("http")}
    assert hosts == {"127.0.0.1"}, "the page asks nobody but the sidecar"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_shows_it(tmp_path: Path, scheme: str) -> None:
    """On a phone nothing lies beside the screen, and both themes can be read."""
    async with machine() as made, guarded(write_config(tmp_path, made)) as at:
        await at.phase("active")
        shown = browsing(at.sidecar.url, viewport=PHONE, color_scheme=scheme)
        async with shown as seen:
            await expect(seen.page.locator("#sentence")).to_contain_text("Speculation pays")
            width = await seen.page.evaluate("() => document.documentElement.scrollWidth")
            assert width <= PHONE["width"]
            assert await seen.faults() == []
    assert seen.complaints == []


async def test_an_operator_needs_the_token(tmp_path: Path) -> None:
    """A wrong token is refused in words and changes nothing; the right one overrides and probes."""
    (tmp_path / "token").write_text(TOKEN)
    more = f"token_file: {tmp_path / 'token'}"
    async with machine() as made, guarded(write_config(tmp_path, made, more=more)) as at:
        await at.phase("active")
        async with browsing(at.sidecar.url, viewport=DESKTOP) as seen:
            page, told = seen.page, seen.page.locator("#told")
            await page.get_by_label("Token", exact=True).fill("guessed")
            await page.get_by_role("button", name="Speculation off").click()
            await expect(told).to_contain_text("Refused: Authorization: Bearer")
            assert at.view.phase == "active"
            await page.get_by_label("Token", exact=True).fill(TOKEN)
            await page.get_by_label("Reason").fill("load test")
            await page.get_by_role("button", name="Speculation off").click()
            await expect(told).to_contain_text("Done")
            await expect(page.locator("#phase")).to_have_text("override")
            await at.confirmed(on=False)
            await page.get_by_role("button", name="Probe now").click()
            await expect(told).to_contain_text("only in fallback is there a probe to wait for")
            await page.get_by_role("button", name="Leave it to the guard").click()
            await expect(page.locator("#phase")).not_to_have_text("override")
            assert TOKEN not in page.url
    (refusal,) = {text for text in seen.complaints if "401" in text}
    assert [text for text in seen.complaints if text != refusal and "409" not in text] == []


async def test_a_probe_can_be_asked_for(tmp_path: Path) -> None:
    """In fallback the button has the next probe at once, whatever is left of the cool-down."""
    (tmp_path / "token").write_text(TOKEN)
    async with machine(slow=3.0) as made:
        file = write_config(
            tmp_path, made, guard="cooldown: 50m", more=f"token_file: {tmp_path / 'token'}"
        )
        async with guarded(file) as at:
            await at.phase("fallback")
            made.slow = 1.0
            async with browsing(at.sidecar.url, viewport=DESKTOP) as seen:
                await seen.page.get_by_label("Token", exact=True).fill(TOKEN)
                await seen.page.get_by_role("button", name="Probe now").click()
                await expect(seen.page.locator("#told")).to_contain_text("Done")
                await at.phase("active")
    assert seen.complaints == []


async def test_a_day_is_shown(tmp_path: Path) -> None:
    """After a day the page holds all of it, coarser with age, and goes on being live."""
    async with machine() as made, guarded(write_config(tmp_path, made)) as at:
        await at.phase("active")
        now = at.sidecar.view.targets[0].last_success
        assert now is not None
        trend = at.sidecar._trend
        for second in range(0, 86400, 20):
            past = view(now - 86400 + second, model="small", speedup=1.5)
            target = replace(past.targets[0], name="spec")
            trend.take(replace(past, targets=(target,), guard=None))
        async with browsing(at.sidecar.url, viewport=DESKTOP) as seen:
            await expect(seen.page.locator("#link")).to_have_text("live")
            await seen.page.get_by_label("24 h").check()
            count = "() => [...memory.values()][0].length"
            await seen.page.wait_for_function(f"() => ({count})() > 1400")
            assert await seen.page.evaluate(count) < 2 * sum(most for _, most in STRETCHES)
            before = await seen.page.evaluate("() => [...memory.values()][0].at(-1).unix")
            await seen.page.wait_for_function(
                f"() => [...memory.values()][0].at(-1).unix > {before}"
            )
            assert before > START
    assert seen.complaints == []


async def test_a_server_that_is_down_is_named(tmp_path: Path) -> None:
    """When the server goes, the page says so, and so does it when the sidecar itself goes."""
    async with machine() as made, guarded(write_config(tmp_path, made)) as at:
        await at.phase("active")
        async with browsing(at.sidecar.url, viewport=DESKTOP) as seen:
            await expect(seen.page.locator("#targets")).to_contain_text("up")
            made.down = True
            await expect(seen.page.locator("#sentence")).to_contain_text("does not answer")
            await expect(seen.page.locator("#targets")).to_contain_text("http status")
            await at.sidecar.stop()
            await expect(seen.page.locator("#link")).to_have_text("no connection")
