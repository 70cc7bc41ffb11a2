"""docs/security.md says what the program does: its roles, scopes and settings are the real ones."""

import re
from pathlib import Path
from typing import Final

from app.core.access import ROLES, SCOPES
from app.core.error_codes import CODES
from app.core.settings import Settings

PAGE: Final = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")


def test_the_table_of_roles_is_the_program_s() -> None:
    rows = re.findall(r"^\| (`[a-z`, ]+`) \| (.*`[a-z]+:[a-z]+`.*) \|$", PAGE, re.MULTILINE)
    allowed: set[str] = set()
    documented: dict[str, set[str]] = {}
    for names, scopes in rows:
        allowed = allowed | set(re.findall(r"`([a-z]+:[a-z]+)`", scopes))
        documented |= dict.fromkeys(re.findall(r"`([a-z]+)`", names), allowed)
    assert documented == ROLES
    assert allowed == SCOPES.keys()


def test_every_setting_and_code_that_the_page_names_exists() -> None:
    settings = {f"HOLDFAST_{name.upper()}" for name in Settings.model_fields} | {"HOLDFAST_API_KEY", "HOLDFAST_URL"}
    assert set(re.findall(r"HOLDFAST_[A-Z_]+", PAGE)) <= settings
    others = {"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}  # variables that other programs know as well
    assert {
        word for word in re.findall(r"`([A-Z]{2,}_[A-Z_]+)`", PAGE) if not word.startswith("HOLDFAST")
    } <= CODES.keys() | others
