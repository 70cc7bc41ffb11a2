"""The `holdfast` command with all its subcommands.

Exit codes: 0 success; 1 failure or problem found; 2 wrong usage; 3 the run waits for a person who cannot be asked here;
130 interrupted. Only small modules are imported here, so that `--help` and shell completion are fast.
"""

from app.cli import (
    approvals,
    datasets,
    evals,
    evidence,
    extensions,
    jobs,
    journal,
    keys,
    log,
    mcp,
    memory,
    runs,
    schedules,
    skills,
    threads,
    tools,
    ui,
    webhooks,
    workflows,
)
from app.cli.agents import agents
from app.cli.audit import audit
from app.cli.backup import backup
from app.cli.chat import chat, run
from app.cli.check import check
from app.cli.compact import compact
from app.cli.compare import compare
from app.cli.doctor import doctor
from app.cli.new import new
from app.cli.partition import partition
from app.cli.root import app
from app.cli.tool_bench import tool_bench
from app.cli.undo import undo

app.command()(run)
app.command()(chat)
app.command()(agents)
app.add_typer(runs.app, name="runs")
app.command()(undo)
app.add_typer(jobs.app, name="jobs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(extensions.app, name="extensions")
app.add_typer(mcp.app, name="mcp")
app.add_typer(threads.app, name="threads")
app.add_typer(approvals.app, name="approvals")
app.add_typer(tools.app, name="tools")
app.add_typer(workflows.app, name="workflows")
app.add_typer(memory.app, name="memory")
app.add_typer(skills.app, name="skills")
app.add_typer(log.app, name="log")
app.add_typer(journal.app, name="journal")
app.command()(audit)
app.add_typer(ui.app, name="ui")
app.add_typer(evidence.app, name="evidence")
app.add_typer(datasets.app, name="dataset")
app.add_typer(evals.app, name="eval")
app.add_typer(keys.app, name="keys")
app.command()(check)
app.command()(compare)
app.command(name="tool-bench")(tool_bench)
app.command()(new)
app.command()(doctor)
app.command()(backup)
app.command()(compact)
app.command()(partition)

__all__ = ["app"]
