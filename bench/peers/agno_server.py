"""An Agno AgentOS with one agent for each pace: `agno_server.py UPSTREAM PORT FOLDER`. Runs are stored in SQLite."""

import sys

import uvicorn
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.os import AgentOS

upstream, port, folder = sys.argv[1:]
database = SqliteDb(db_file=f"{folder}/agno.db")
agents = [
    Agent(
        id=pace,
        name=pace,
        model=OpenAIChat(id="m", base_url=f"{upstream}/{pace}", api_key="none"),
        instructions="You are helpful.",
        db=database,
        telemetry=False,
    )
    for pace in ("burst", "pace5")
]
app = AgentOS(agents=agents, telemetry=False).get_app()

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")
