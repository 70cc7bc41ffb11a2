"""A few orders, so that every backend has something to look up."""

from typing import Any

ORDERS = {
    7: {"number": 7, "customer": "Ada", "state": "shipped", "total": 42.5},
    8: {"number": 8, "customer": "Grace", "state": "open", "total": 99.0},
}


def find_order(number: int) -> dict[str, Any]:
    return ORDERS[number]


def find_customer(name: str) -> dict[str, Any]:
    return {"name": name, "orders": [number for number, order in ORDERS.items() if order["customer"] == name]}
