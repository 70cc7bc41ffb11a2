"""Generated schemas are fresh, valid, and say the same as the compiler; contracts are as published."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from app.core import json
from app.core.resources import shipped
from app.core.schemas import SchemaInvalid, SchemaRegistry, Validator
from app.workspace.documents import parse_yaml
from app.workspace.schemas import workspace_schemas, write_workspace_schemas
from app.workspace.specs import KINDS
from tests.workspace.building import GOOD

SHIPPED = sorted(path for path in shipped("workspaces").rglob("*.yaml"))


def test_schemas_on_disk_are_what_the_models_say(tmp_path: Path) -> None:
    folder = shipped("schemas") / "workspace"
    assert {path.name: path.read_bytes() for path in folder.glob("*.json")} == workspace_schemas()
    assert write_workspace_schemas(tmp_path) == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", sorted(workspace_schemas()))
def test_schema_is_valid_by_the_other_library(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(workspace_schemas()[name]))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_shipped_file_names_its_schema_and_keeps_it(path: Path) -> None:
    schema = path.read_text().splitlines()[0].partition("yaml-language-server: $schema=")[2]
    for document in parse_yaml(path.read_bytes()).documents:
        # Document.json leads to the schema of each document's kind.
        one = schema.replace("Document.json", f"{document.value['kind']}.json")
        assert Validator(json.loads((path.parent / one).read_bytes())).issues(document.value) == []


def test_schema_refuses_what_the_model_refuses() -> None:
    document = yaml.safe_load(GOOD["agents/helper.yaml"])
    document["spec"]["toools"] = ["echo"]
    assert Validator(json.loads(workspace_schemas()["Agent.json"])).issues(document)


def test_every_kind_has_a_schema() -> None:
    assert {f"{kind}.json" for kind in KINDS} | {"Document.json"} == set(workspace_schemas())


@pytest.mark.requirement("OS-L7")
@pytest.mark.parametrize(
    ("schema_id", "required"),
    [
        ("skill_frontmatter_v1", ["name", "description"]),
        ("cycle_v1", ["id", "phases", "entry_phase", "schema_version"]),
        ("phase_v1", ["id", "advance_signal", "schema_version"]),
        ("policy_v1", ["id", "kind", "rules", "schema_version"]),
    ],
)
def test_contract_is_as_published(schema_id: str, required: list[str]) -> None:
    document = SchemaRegistry().document(schema_id)
    jsonschema.Draft202012Validator.check_schema(document)
    assert document["$id"] == schema_id and document["required"] == required


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/s.json", "file:///etc/hostname"])
def test_schema_reference_is_never_fetched(reference: str) -> None:
    with pytest.raises(SchemaInvalid):
        Validator({"$ref": reference})
