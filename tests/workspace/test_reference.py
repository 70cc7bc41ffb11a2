"""Every field of a document is described, and the reference page has all of them."""

from app.workspace.schemas import workspace_schemas
from app.workspace.specs import KINDS
from app.workspace.specs.descriptions import DESCRIPTIONS
from scripts import reference


def test_every_field_of_every_kind_has_a_description() -> None:
    missing = reference.undescribed()
    assert missing == [], "describe them by Field(description=...) or in app/workspace/specs/descriptions.py"


def test_nothing_is_described_that_is_no_field() -> None:
    from app.core import json

    fields = {
        (model, name)
        for content in workspace_schemas().values()
        for model, schema in json.loads(content).get("$defs", {}).items()
        for name in schema.get("properties", {})
    }
    coming = {("Retry", "totalSeconds")}
    described = {(model, name) for model, names in DESCRIPTIONS.items() for name in names}
    assert described - fields - coming == set()


def test_the_page_has_every_kind_and_its_fields() -> None:
    page = reference.page().decode()
    assert [kind for kind in KINDS if f"\n## {kind}\n" not in page] == []
    for row in ("`effect`", "`retry.attempts`", "`subprocess.command`", "`script.rules[].match.contains`"):
        assert f"| {row} |" in page
