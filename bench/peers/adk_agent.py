"""An ADK agent over the scripted model, whose address is in BENCH_UPSTREAM. The folder's name is the pace."""

import os
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm

_PACE = Path(__file__).parent.name
_MODEL = LiteLlm(model="openai/m", api_base=f"{os.environ['BENCH_UPSTREAM']}/{_PACE}", api_key="none")
root_agent = LlmAgent(name=_PACE, model=_MODEL, instruction="You are helpful.")
