"""A rule and the tools of the example. Everything is made up."""

from typing import Any


def shouting(content: Any) -> bool:
    return isinstance(content, str) and len(content) > 10 and content.isupper()


def customer(number: int) -> dict[str, Any]:
    return {"mail": "ann@example.com", "number": number}


def refund(amount: float) -> dict[str, Any]:
    return {"refunded": amount}
