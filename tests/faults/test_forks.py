"""A forked program is to the tests what a started one would be: arguments, variables, streams, exit code and death."""

import os
import signal
import subprocess
from pathlib import Path

from tests.forks import can_fork, fork, holdfast_command, run_holdfast
from tests.server import ROOT, clean_environment


def test_a_forked_command_prints_and_ends_as_a_started_one() -> None:
    told = run_holdfast("--help", environment=clean_environment())
    assert told.returncode == 0 and "serve" in told.stdout and told.stderr == ""
    refused = run_holdfast("no-such-command", environment=clean_environment())
    assert refused.returncode == 2 and refused.stdout == "" and "no-such-command" in refused.stderr


def test_it_has_the_variables_and_the_folder_that_it_was_given(tmp_path: Path) -> None:
    environment = clean_environment() | {"HOLDFAST_WORKSPACE": "space"}
    made = run_holdfast("new", "space", environment=environment, folder=tmp_path)
    assert made.returncode == 0 and (tmp_path / "space").is_dir(), made.stderr


def test_a_killed_one_ends_by_the_signal_and_can_be_asked_again(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        arguments = ["serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
        process = fork("app.main", arguments, environment=clean_environment(), stdout=output, stderr=output)
    assert process.poll() is None
    process.kill()
    assert process.wait(30) == -signal.SIGKILL == process.poll() == process.returncode
    process.kill()  # nobody else's process


def test_a_shell_gets_the_exit_code_of_the_command(tmp_path: Path) -> None:
    path = f"{holdfast_command(tmp_path)}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "holdfast --help | grep -c serve; holdfast no-such-command 2>/dev/null; echo $?"],
        env=clean_environment() | {"PATH": path}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert int(done.stdout.splitlines()[0]) >= 1 and done.stdout.splitlines()[-1] == "2"


def test_what_python_reads_at_its_start_is_not_forked() -> None:
    usual = clean_environment()
    assert can_fork(usual) and can_fork(usual | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)})
    assert can_fork(usual | {"PYTHONPATH": f"{ROOT}:/behind"}) and not can_fork(
        usual | {"PYTHONPATH": f"/before:{ROOT}"}
    )
    for name in ("PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "TZ"):
        assert not can_fork(usual | {name: "other"})
