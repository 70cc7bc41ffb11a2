"""The tools of the example: they make a text and pretend to publish it."""


def join_lines(heading: str, lines: list[str]) -> dict[str, str]:
    return {"text": "\n".join([f"## {heading}", "", *lines])}


def publish(version: str, text: str) -> dict[str, object]:
    return {"url": f"https://example.com/notes/{version}", "bytes": len(text.encode())}
