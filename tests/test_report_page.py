"""The report's HTML in a real browser: it says what is there, alone, to everybody."""

from pathlib import Path
from typing import Any

import pytest
from tests.test_page import browsing
from tests.test_report import ABOUT, PERIOD, SERVER, answers, line, pool, states, steady

from specgauge.report.document import document
from specgauge.report.figures import figures
from specgauge.report.render import as_html
from specgauge.report.terms import Terms


def page(folder: Path, *, beside: bool) -> str:
    """Write a report with something in every part of it; gives its URL."""
    started = PERIOD.start
    gap = {at: 400.0 * at for at in range(145) if not 40 <= at <= 60}
    pools = [pool("standard"), pool("speculative", tpot=0.02)]
    classes: dict[str, Any] = {key: tuple(one[key] for one in pools) for key in pools[0]}
    found = figures(
        answers(
            speedup=0.9,
            draft_tokens=(line(SERVER, gap),),
            generated=(line(SERVER, gap),),
            baseline_created=(line(SERVER, {5: started - 90 * 86_400.0}),),
            alert=(line({"alertname": "SpecgaugeX", "severity": "warning"}, {3: 1.0}),),
            **classes,
            **states(
                (0, 9, "active", started),
                (10, 40, "fallback", started + 570.0),
                (41, 720, "active", started + 2460.0),
            ),
            bucket=tuple(
                line({**SERVER, "le": le}, steady(count, 12))
                for le, count in (("1.0", 2.0), ("2.5", 8.0), ("+Inf", 10.0))
            ),
        ),
        Terms(),
    )
    file = folder / "report.html"
    file.write_text(as_html(document(found, found if beside else None, Terms(), ABOUT)))
    return file.as_uri()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
async def test_page_stands_alone(scheme: str, width: int, tmp_path: Path) -> None:
    """No console error, no request, no serious fault for axe, nothing wider than the screen."""
    url = page(tmp_path, beside=scheme == "dark")
    size = {"width": width, "height": 900}
    async with browsing(url, viewport=size, color_scheme=scheme) as seen:
        assert await seen.page.locator("svg[role=img]").count() == 3
        back = await seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") is (scheme == "light")
        assert await seen.page.evaluate("document.documentElement.scrollWidth") <= width
        for one in await seen.page.locator("summary").all():
            await one.click()
        assert await seen.faults() == []
        said = await seen.page.locator("main").inner_text()
        assert seen.asked == [url]
        assert seen.complaints == []
    for text in ("Speculation cost: tokens came", "Send class chat", "SpecgaugeX"):
        assert text in said
