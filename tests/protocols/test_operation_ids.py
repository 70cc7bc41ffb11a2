"""Each operation of the OpenAPI document has an id of its own: a generated client makes a method of it."""

from collections import Counter

from app.core import json
from scripts.generate import ROOT


def test_no_two_operations_have_the_same_id() -> None:
    document = json.loads((ROOT / "openapi/openapi.json").read_bytes())
    ids = [
        operation["operationId"]
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(ids) > 100
    assert [name for name, times in Counter(ids).items() if times > 1] == []
