"""The sidecar as a process whose time runs a hundred times faster; only for the memory run."""

import asyncio
import sys

from specgauge.model.settings import Settings, TargetSettings
from specgauge.serve.app import Sidecar
from specgauge.serve.loop import Pace

_SPEED = 100.0


async def serve(url: str, port: int) -> None:
    """Run until killed."""
    target = TargetSettings(name="bench", url=url)
    settings = Settings(targets=(target,), host="127.0.0.1", port=port)
    sidecar = Sidecar(settings, pace=Pace(speed=_SPEED))
    await sidecar.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
