"""The tools of the benchmark. `holdfast tool-bench` only takes note of calls and runs none of them."""

from typing import Any


def get_weather(city: str, days: int, unit: str) -> dict[str, Any]:
    return {"done": True}


def convert_money(amount: float, source: str, target: str) -> dict[str, Any]:
    return {"done": True}


def book_table(restaurant: str, people: int, date: str) -> dict[str, Any]:
    return {"done": True}


def save_note(path: str, text: str) -> dict[str, Any]:
    return {"done": True}


def get_quote(symbol: str) -> dict[str, Any]:
    return {"done": True}
