"""An embedding server in a thread, in OpenAI's format, for tests whose own loop ends while servers still ask."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app.core import json

MEANINGS = (("car", "automobile", "vehicle"), ("dog", "hound", "puppy"), ("tea", "drink", "beverage"))


def meaning(text: str) -> list[float]:
    """Words that mean the same have the same vector."""
    return [*(2.0 if any(word in text.casefold() for word in words) else 0.0 for words in MEANINGS), 0.1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        data = [{"index": place, "embedding": meaning(text)} for place, text in enumerate(texts)]
        answer = json.dumps({"data": data, "usage": {"prompt_tokens": 10 * len(texts)}})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def embedding_thread() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
