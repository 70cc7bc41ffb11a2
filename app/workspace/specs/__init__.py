"""The kinds of documents and the shape of each."""

from typing import Final

from app.workspace.specs.agent import AgentDocument
from app.workspace.specs.base import Document
from app.workspace.specs.model import ModelDocument
from app.workspace.specs.others import (
    EvaluatorDocument,
    GuardrailDocument,
    HookDocument,
    MemoryDocument,
    ScheduleDocument,
    WebhookDocument,
)
from app.workspace.specs.runtime import ProfileDocument, RuntimeDocument
from app.workspace.specs.tool import McpServerDocument, ToolDocument
from app.workspace.specs.workflow import WorkflowDocument

KINDS: Final[dict[str, type[Document]]] = {
    "Runtime": RuntimeDocument,
    "Profile": ProfileDocument,
    "Model": ModelDocument,
    "Agent": AgentDocument,
    "Tool": ToolDocument,
    "McpServer": McpServerDocument,
    "Memory": MemoryDocument,
    "Workflow": WorkflowDocument,
    "Hook": HookDocument,
    "Guardrail": GuardrailDocument,
    "Evaluator": EvaluatorDocument,
    "Schedule": ScheduleDocument,
    "Webhook": WebhookDocument,
}
