"""Lists at the terminal: for people and for scripts that read columns."""

import pytest

from app.cli.command_session import _print_table


def test_a_table_is_plain_text_that_is_never_folded_cut_or_styled_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "run_" + "x" * 300
    _print_table(("run", "says"), [(long, "[bold]a[/]\nb"), ("run_2", "\x1b[31mred")])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "run" + " " * (len(long) - 1) + "says"
    assert first == f"{long}  [bold]a[/] b"
    assert second.startswith("run_2 ") and "\x1b" not in second and not second.endswith(" ")
