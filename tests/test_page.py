"""The status page in a real browser: what a person sees, does and hears read out."""

import asyncio
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
from tests.class_lines import of_class
from tests.guarding import TOKEN, guarded, machine, write_config
from tests.sidecars import quick, sidecar, specgauge, until
from tests.test_trend import START, view

from specgauge.model.settings import TargetSettings
from specgauge.serve.trend import STRETCHES

pytestmark = pytest.mark.slow

SERIOUS = {"serious", "critical"}
PATIENCE = 60_000.0
DESKTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
NOBODY = quick(TargetSettings(name="spec", url="http://127.0.0.1:9/metrics"))
NUMBERS: dict[str, Any] = {
    "speedup_ratio": {"concurrency": 1.2, "throughput": 1.3},
    "speedup_ratio_low": {"concurrency": 1.15},
    "speedup_ratio_high": {"concurrency": 1.25},
    "acceptance_length": 3.0,
    "breakeven_acceptance_length": 1.5,
}
"""What a verdict with figures has beside its answer."""


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
        height = await seen.page.evaluate("() => document.documentElement.scrollHeight")
        assert height <= 1000, "about one screen"
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
            await expect(told).to_contain_text("Refused: that is not the token of token_file")
            for odd in ("schlüssel", "\U0001f511"):
                await page.get_by_label("Token", exact=True).fill(odd)
                await page.get_by_role("button", name="Speculation off").click()
                await expect(told).to_contain_text("a token is ASCII")
            await page.get_by_label("Token", exact=True).fill("")
            await page.get_by_role("button", name="Speculation off").click()
            await expect(told).to_contain_text("The token of token_file is needed")
            assert at.view.phase == "active"
            await page.get_by_label("Token", exact=True).fill(TOKEN)
            await page.get_by_label("Reason").fill("load test")
            for field in ("#token", "#for", "#why"):
                await page.locator(field).press("Enter")
                await expect(told).to_have_text("Press one of the buttons.")
            assert at.view.phase == "active", "a key struck in a field is no order"
            await page.get_by_role("button", name="Speculation off").press("Enter")
            await expect(told).to_contain_text("Done: speculation off until changed")
            await expect(page.locator("#phase")).to_have_text("override")
            await expect(page.locator("#flag")).to_contain_text("off until changed: load test")
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
            asked = ("fallback", "probing", "probe_asked")
            assert at.view.transitions[asked] == 1
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


def told(verdict: str, reason: str, **more: Any) -> dict[str, Any]:
    """Write what the status says of a verdict."""
    return {"verdict": verdict, "reason": reason, "mismatches": [], "absent": {}, **more}


SENTENCES = {
    "pays": (
        told("pays", "speedup_above_one", **NUMBERS),
        (
            "Speculation pays: each token comes 1.20x as fast as without it (1.15x to 1.25x), "
            "1.30x under the same arrivals. Acceptance length is 3.00; it breaks even at 1.50."
        ),
    ),
    "no interval": (
        told("pays", "speedup_above_one", speedup_ratio=NUMBERS["speedup_ratio"]),
        (
            "Speculation pays: each token comes 1.20x as fast as without it, "
            "1.30x under the same arrivals."
        ),
    ),
    "costs, and cannot pay": (
        told(
            "costs",
            "speedup_below_one",
            speedup_ratio={"concurrency": 0.4, "throughput": 0.4},
            absent={"breakeven_acceptance_length": "cannot_pay"},
        ),
        (
            "Speculation costs: each token comes 0.40x as fast as without it, 0.40x under the same "
            "arrivals. No acceptance could pay for what a step costs here."
        ),
    ),
    "even": (
        told("even", "within_margin", speedup_ratio={"concurrency": 1.0, "throughput": 1.0}),
        (
            "Speculation makes no difference: each token comes 1.00x as fast as without it, "
            "1.00x under the same arrivals."
        ),
    ),
    "tokens and requests disagree": (
        told("even", "latency_tradeoff", e2e_speedup_ratio=0.9, **NUMBERS),
        (
            "Speculation wins and loses: each token comes 1.20x as fast as without it (1.15x to "
            "1.25x), but whole requests 0.90x. Decide by what users wait for. Acceptance length is "
            "3.00; it breaks even at 1.50."
        ),
    ),
    "another server's baseline": (
        told("unknown", "baseline_mismatch", mismatches=["model_name", "gpu"]),
        (
            "No verdict: the baseline is of another server; record one on this (it differs in "
            "model name, gpu)."
        ),
    ),
    "wide": (
        told("unknown", "interval_too_wide", **NUMBERS),
        (
            "No verdict: the last seconds differ too much to tell. So far each token comes 1.20x "
            "as fast as without it (1.15x to 1.25x)."
        ),
    ),
    "a reason of a later release": (
        told("unknown", "out_of_tea"),
        "No verdict: out of tea.",
    ),
    "no drafts in its window": (
        told(
            "even",
            "within_margin",
            speedup_ratio={"concurrency": 0.98, "throughput": 0.98},
            absent={"acceptance_length": "no_drafts"},
        ),
        (
            "Speculation is not drafting now: each token comes 0.98x as fast as the baseline says. "
            "About 1 is as it should be while nothing is drafted."
        ),
    ),
    "no baseline": (
        None,
        (
            "Speculation is active. Without a baseline nobody knows whether it pays: specgauge "
            "baseline record makes one."
        ),
    ),
}


async def test_the_sentence_fits_the_verdict() -> None:
    """Whatever is found is said so that it cannot be taken for something else."""
    say = "([model, target, guard]) => Words.sentence(model, target, guard).slice(0, 3)"
    async with sidecar(settings=NOBODY) as made, browsing(made.sidecar.url) as seen:

        async def sentence(
            model: dict[str, Any], *, role: str = "speculative", flag: bool | None = None
        ) -> str:
            target = {"name": "spec", "role": role}
            guard = {"target": "spec", "flag": {"desired": flag}}
            answer, _, rest = await seen.page.evaluate(say, [model, target, guard])
            return f"{answer}{rest}".replace("\u00d7", "x")

        for name, (verdict, words) in SENTENCES.items():
            model = {"speculation": "active"} | ({"verdict": verdict} if verdict else {})
            assert await sentence(model) == words, name
        quiet = {"speculation": "active", "verdict": SENTENCES["no drafts in its window"][0]}
        assert (await sentence(quiet, flag=False)).startswith("Speculation is off: ")
        assert (await sentence(quiet, role="standard")).startswith("This server does not speculate")
        paused = {**quiet, "speculation": "inactive", "speculation_reason": "k_zero_at_load"}
        assert "not drafting now (k zero at load): each" in await sentence(paused)
        idle = {"speculation": "idle", "verdict": told("unknown", "too_few_tokens")}
        assert (await sentence(idle)).startswith("Idle: no tokens")
        # Nobody is there to ask: the page says so, and offers no button of a guard it has not.
        await expect(seen.page.locator("#sentence")).to_contain_text("spec does not answer")
        await expect(seen.page.locator("#says")).to_contain_text("No guard is configured")
        await expect(seen.page.locator("#operate")).to_be_hidden()
        await expect(seen.page.locator("#classes")).to_be_hidden()


async def test_a_page_out_of_sight_holds_no_connection() -> None:
    """A hidden page lets go of its stream, and one whose sidecar has gone silent says so."""
    hide = """hidden => {
        Object.defineProperty(document, "visibilityState", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    silent = """() => new Promise(done => {
        stream.close();
        stream = { close() {} };
        heard = performance.now() - SILENT_MS;
        const link = byId("link");
        new MutationObserver(() => done(link.textContent)).observe(link, { childList: true });
    })"""
    async with sidecar(settings=NOBODY) as made, browsing(made.sidecar.url) as seen:
        link = expect(seen.page.locator("#link"))
        await link.to_have_text("live")
        await seen.page.evaluate(hide, "hidden")
        await link.to_have_text("paused")
        await until(lambda: not made.sidecar._events._pages, "the end of the stream")
        await seen.page.evaluate(hide, "visible")
        await link.to_have_text("live")
        assert await seen.page.evaluate(silent) == "no connection"
        await link.to_have_text("live")
    assert seen.complaints == []


def seconds(value: float) -> str:
    """Write a time as the page does."""
    return f"{value:.2f} s" if value >= 1 else f"{float(f'{1000 * value:.3g}'):g} ms"


def spread(one: dict[str, float]) -> str:
    """Write the two percentiles of the API side by side."""
    return f"{seconds(one['p50'])} · {seconds(one['p95'])}"


async def test_classes_stand_by_pool(tmp_path: Path) -> None:
    """Each class has a row for each pool with the figures of the API, and no row sums them up."""
    log, odd = tmp_path / "access.log", "<img onerror>"
    more = f"routing: {{access_log: {log}}}"
    async with machine() as made, guarded(write_config(tmp_path, made, more=more)) as at:
        await at.phase("active")
        lines = [
            of_class("chat"),
            of_class("chat", seconds=4.5, status=500),
            of_class(
                "chat", served_pool="standard", drafts="", draft_tokens="", accepted_tokens=""
            ),
            of_class(odd, first_byte_seconds=1.5),
        ]
        await asyncio.to_thread(log.write_bytes, b"".join(line + b"\n" for line in lines))
        async with browsing(at.sidecar.url, viewport=DESKTOP) as seen:
            rows = seen.page.locator("#pools tbody tr")
            await expect(rows).to_have_count(3, timeout=PATIENCE)
            shown = {(await rows.nth(at).all_inner_texts())[0] for at in range(3)}
            await expect(seen.page.locator("#log")).to_contain_text("from the router's access log")
            assert await seen.faults() == []
        found = {
            (one["class"], pool["pool"]): pool
            for one in (await at.document("/api/v1/classes"))["classes"]
            for pool in one["pools"]
        }

    def figures(name: str, pool: str) -> str:
        one = found[name, pool]
        first, whole = one["ttft_seconds"], one["e2e_seconds"]
        texts = [pool, one["requests"], one["errors"], *map(spread, (first, whole))]
        length = f"{one['acceptance_length']:.2f}" if "acceptance_length" in one else "\u2013"
        return "\t".join(map(str, [*texts, seconds(one["tpot_seconds"]), length]))

    assert shown == {
        f"chat\t{figures('chat', 'speculative')}",
        figures("chat", "standard"),
        f"{odd}\t{figures(odd, 'speculative')}",
    }
    assert "chat\tspeculative\t2\t1\t375 ms · 488 ms\t2.25 s · 2.48 s\t20 ms\t2.50" in shown
    assert seen.complaints == []


async def test_without_scripts_it_says_where_to_look() -> None:
    """No button that does nothing, no figure that never comes: only where the same can be read."""
    async with (
        sidecar(settings=NOBODY) as made,
        browsing(made.sidecar.url, java_script_enabled=False) as seen,
    ):
        said = expect(seen.page.locator("noscript p"))
        await said.to_be_visible()
        await said.to_contain_text("This page needs JavaScript")
        for what in ("main", "#span", "#link"):
            await expect(seen.page.locator(what)).to_be_hidden()
