"""LangGraph graphs with one model call, one for each pace. The upstream's address is in BENCH_UPSTREAM."""

import os

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph


def _graph(pace: str):
    upstream = os.environ["BENCH_UPSTREAM"]
    model = ChatOpenAI(model="m", base_url=f"{upstream}/{pace}", api_key="none", streaming=True, stream_usage=False)

    async def call(state: MessagesState) -> dict:
        return {"messages": [await model.ainvoke([("system", "You are helpful."), *state["messages"]])]}

    made = StateGraph(MessagesState)
    made.add_node("call", call)
    made.add_edge(START, "call")
    made.add_edge("call", END)
    return made.compile()


burst = _graph("burst")
pace5 = _graph("pace5")
