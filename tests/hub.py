"""A model hub of one repository on 127.0.0.1, which remembers what it was asked for."""

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves a repository's files to the hub's own client while it is open."""

    def __init__(self, files: Mapping[str, bytes], *, status: int = 200) -> None:
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(files, self.asked, status))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(
    files: Mapping[str, bytes], asked: list[str], status: int
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = self.path.split("?")[0]
            asked.append(path)
            data = files.get(path.split(f"/resolve/{COMMIT}/")[-1])
            if path.startswith("/api/models/"):
                listed = [{"rfilename": name, "size": len(one)} for name, one in files.items()]
                if "/tree/" in path:
                    listed = [
                        {"type": "file", "path": name, "size": len(one), "oid": _tag(one)}
                        for name, one in files.items()
                    ]
                    data = json.dumps(listed).encode()
                else:
                    data = json.dumps(
                        {"id": "org/draft", "sha": COMMIT, "siblings": listed}
                    ).encode()
            self.send_response(404 if data is None else status)
            self.send_header("Content-Length", str(len(data or b"")))
            self.send_header("Content-Type", "application/json")
            self.send_header("ETag", f'"{_tag(data or b"")}"')
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if body:
                self.wfile.write(data or b"")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
