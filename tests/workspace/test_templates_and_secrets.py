"""Templates have no logic; references to the environment are resolved late."""

from urllib.parse import quote

import pytest

from app.core.errors import Failure
from app.workspace.secrets import env_names, is_malformed, resolve_env
from app.workspace.templates import MAX_FILLED, Template, TemplateProblem, compile_template, tolerant_template


def template(source: str) -> Template:
    compiled = compile_template(source, ("args", "result"))
    assert isinstance(compiled, Template), compiled
    return compiled


def test_values_are_quoted_for_their_place() -> None:
    url = template("https://example.com/{{ args.name }}?n={{args.n}}")
    rendered = url.render({"args": {"name": "a/b?", "n": 3}}, quote=lambda text: quote(text, safe=""))
    assert rendered == "https://example.com/a%2Fb%3F?n=3"


def test_single_place_keeps_the_type_of_its_value() -> None:
    assert template("{{ result.ids.0 }}").value({"result": {"ids": [7]}}) == 7
    assert template("id {{ result.ids.0 }}").value({"result": {"ids": [7]}}) == "id 7"


def test_missing_value_is_a_failure() -> None:
    assert isinstance(template("{{ args.x }}").render({"args": {}}), Failure)


def test_inserted_text_is_not_read_as_a_template_again() -> None:
    assert template("{{ args.x }}").render({"args": {"x": "{{ args.y }}", "y": "no"}}) == "{{ args.y }}"


@pytest.mark.parametrize("source", ["{{ args.x", "args.x }}", "{{ }}", "{{ env.HOME }}", "{{ args.x | upper }}"])
def test_malformed_template_is_refused(source: str) -> None:
    assert isinstance(compile_template(source, ("args",)), TemplateProblem)


@pytest.mark.requirement("G21")
def test_a_long_run_of_spaces_after_open_braces_is_refused_at_once() -> None:
    # Tried at each of its splits, this text would take hours.
    assert isinstance(compile_template(("{{" + " " * 5_000) * 200, ("args",)), TemplateProblem)
    assert template("{{" + " " * 5_000 + "args.n" + " " * 5_000 + "}}").value({"args": {"n": 3}}) == 3


@pytest.mark.requirement("G21")
def test_values_fill_a_template_with_at_most_4_mi_characters() -> None:
    """A value that is used in many places must not grow with each of them."""
    twice = template("{{ args.x }}-{{ args.x }}")
    half = MAX_FILLED // 2
    most = twice.render({"args": {"x": "x" * half}})
    assert isinstance(most, str) and len(most) == MAX_FILLED + 1, "the template's own text does not count"
    refused = twice.render({"args": {"x": "x" * (half + 1)}})
    assert isinstance(refused, Failure) and refused.code == "INVALID_ARGUMENTS"
    assert str(MAX_FILLED) in refused.message
    quoted = twice.render({"args": {"x": "/" * half}}, quote=lambda text: quote(text, safe=""))
    assert isinstance(quoted, Failure), "what counts is the text as it is quoted"


def test_literal_texts_are_passed_through_and_values_are_not() -> None:
    made = template("a{{ args.x }}a").render({"args": {"x": "a"}}, literal=str.upper)
    assert made == "AaA"


def test_tolerant_template_keeps_braces_that_are_no_path_from_a_root() -> None:
    source = "{{ input }} {{ env.HOME }} {{ }} {{ input | upper }} {{"
    made = tolerant_template(source, ("input",))
    assert made.render({"input": "{{ input }}"}) == "{{ input }} {{ env.HOME }} {{ }} {{ input | upper }} {{"
    assert tolerant_template("{{ args.x }}", ()).render({}) == "{{ args.x }}"


def test_environment_is_resolved_only_when_asked() -> None:
    assert env_names("Bearer ${env:TOKEN} ${env:B}") == ["TOKEN", "B"]
    assert resolve_env("Bearer ${env:TOKEN}", {"TOKEN": "t${env:B}", "B": "no"}) == "Bearer t${env:B}"
    missing = resolve_env("${env:TOKEN}", {})
    assert isinstance(missing, Failure) and missing.code == "SECRET_MISSING"


@pytest.mark.parametrize("text", ["${TOKEN}", "${env:}", "${env:A-B}", "${env:A", "$(env:A)"])
def test_lookalike_of_a_reference_is_malformed(text: str) -> None:
    assert is_malformed(text)
