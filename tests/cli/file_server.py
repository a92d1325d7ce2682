"""A server on this machine that serves files, resumes, and breaks off where it is told."""

import hashlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Serves files with ranges and tags; breaks off where it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.breaks: dict[str, list[int]] = {}
        self.ranges: list[str] = []
        self.sent: Counter[str] = Counter()
        self.tagged = True

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        if name not in self.server.files:
            self.send_error(404)
            return
        whole = self.server.files[name]
        tag = f'"{hashlib.md5(whole).hexdigest()}"'
        asked = self.headers.get("Range")
        start = 0
        if asked and self.headers.get("If-Range") == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            self.server.ranges.append(asked)
        if start >= len(whole) > 0:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(whole) - start))
        if self.server.tagged:
            self.send_header("ETag", tag)
        self.end_headers()
        breaks = self.server.breaks.get(name, [])
        end = breaks.pop(0) if breaks else len(whole)
        self.wfile.write(whole[start:end])
        self.server.sent[name] += len(whole[start:end])

    def log_message(self, *_: Any) -> None:
        pass
