#!/usr/bin/env python3
"""Take the pictures of the status page that the documentation shows, from the built-in demo.

`python docs/screenshots.py` takes two minutes; it needs chromium and the [dev] extra.
"""

import asyncio
import re
import shutil
import sys
from pathlib import Path

from playwright.async_api import async_playwright

IMAGES = Path(__file__).parent / "img"
SHOTS = {
    "status": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "status-dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "status-phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}
SECONDS = 35.0
TOLD = """() => document.querySelector("#sentence").textContent.startsWith("Speculation pays")
    && document.querySelector("#phase").textContent === "probing" """
"""What the README says that there is to see."""


async def main() -> None:
    """Run the demo, wait until it has something to tell, and take every picture."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("screenshots: chromium is not installed")
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specgauge", "demo", "--speed", "10", "--listen", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert demo.stderr is not None
    url = ""
    while not url:
        found = re.search(r" url=(\S+)", (await demo.stderr.readline()).decode())
        url = found[1] if found else ""
    await asyncio.sleep(SECONDS)
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, context in SHOTS.items():
            page = await (await browser.new_context(**context)).new_page()
            await page.goto(url)
            await page.wait_for_function(TOLD, timeout=120_000)
            await page.screenshot(path=IMAGES / f"{name}.png", full_page=name != "status-phone")
        await browser.close()
    demo.terminate()
    await demo.wait()


if __name__ == "__main__":
    asyncio.run(main())
