"""Which module of `app/` carries out each field of each kind of document (OS-I3).

A field that nobody reads does not belong into the format: it is either in this table, with the module that gives it its
effect, or in `app/workspace/served.py` as not served. Modules that only check or copy a field do not count.
"""

from typing import Final


def _of(name: str, module: str, *fields: str) -> dict[str, str]:
    return {f"{name}.{field}": module for field in fields}


_MODEL: Final = {
    **_of("ModelSpec", "models/registry", "provider"),
    **_of("ModelSpec", "models/kinds/openai", "model"),
    **_of("ModelSpec", "models/transport", "base_url", "api_key", "headers"),
    **_of("ModelSpec", "models/negotiate", "capabilities"),
    **_of("ModelSpec", "models/prepare", "limits", "prices", "parameters"),
    **_of("ModelSpec", "models/attempt", "timeouts", "breaker"),
    **_of("ModelSpec", "models/router", "retry"),
    **_of("ModelSpec", "models/plans", "fallbacks"),
    **_of("ModelSpec", "models/prepare", "reasoning"),
    **_of("ModelSpec", "models/kinds/scripted", "script"),
    **_of("ModelSpec", "models/config", "config"),
}

READERS: Final[dict[str, str]] = {
    # -- Runtime
    **_of("RuntimeSpec", "workspace/compiled", "default_agent"),
    **_of("RuntimeSpec", "wiring/runtime", "env", "redaction", "progress"),
    **_of("RuntimeSpec", "tools/kinds/mcp", "outgoing"),
    **_of("RuntimeSpec", "runtime/schedule/effective_settings", "concurrency", "retention", "drain_seconds"),
    **_of("RuntimeSpec", "runtime/intake/service", "busy_policy"),
    **_of("RuntimeSpec", "runtime/run/conductor", "budgets", "interrupts"),
    **_of("RuntimeSpec", "protocols/http/workspace", "cli"),
    **_of("RuntimeSpec", "policy/declared", "hooks"),
    **_of("RuntimeSpec", "workspace/compile", "strict"),
    **_of("RuntimeSpec", "policy/kinds/command", "sandbox"),
    **_of("Concurrency", "runtime/schedule/effective_settings", "runs", "per_agent", "per_tenant", "queue_per_thread"),
    **_of("Budgets", "runtime/run/conductor", "run", "tenant"),
    **_of("Limits", "runtime/run/budgets", "tokens", "cost_usd", "model_calls", "tool_calls", "wall_seconds"),
    **_of("TenantBudget", "runtime/run/budgets", "tokens_per_day", "cost_usd_per_day"),
    **_of("TenantBudget", "runtime/schedule/effective_settings", "runs_per_minute"),
    **_of("Retention", "runtime/schedule/effective_settings", "deleted_days", "threads_days", "delta_days"),
    **_of("Redaction", "wiring/runtime", "kinds", "trace_fields"),
    **_of("Redaction", "runtime/run/model_calls", "reasoning"),
    **_of("Progress", "wiring/runtime", "narration"),
    **_of("Narration", "wiring/kinds", "enabled", "style", "provider"),
    **_of("Cli", "protocols/http/workspace", "events"),
    **_of("CliEvents", "protocols/http/workspace", "include"),
    **_of("Outgoing", "tools/kinds/http", "hosts", "private"),
    **_of("Interrupts", "runtime/run/conductor", "expires_seconds"),
    # -- Profile and Model: a profile's fields become the model's
    **_of("ProfileSpec", "workspace/compile", "models"),
    **{key.replace("ModelSpec", "ModelOverride"): module for key, module in _MODEL.items()},
    **_MODEL,
    **_of(
        "Capabilities",
        "workspace/specs/model",
        "streaming",
        "tools",
        "parallel_tools",
        "structured_output",
        "reasoning",
    ),
    **_of("Capabilities", "workspace/specs/model", "system_messages", "input", "output"),
    **_of("ModelLimits", "models/prepare", "context_tokens", "max_input_tokens", "max_output_tokens"),
    **_of("ModelLimits", "models/limits", "concurrency", "requests_per_minute", "tokens_per_minute"),
    **_of("Prices", "models/prepare", "input", "output", "cached_input"),
    **_of("Timeouts", "models/transport", "connect_seconds"),
    **_of("Timeouts", "models/attempt", "first_token_seconds", "idle_seconds", "total_seconds"),
    **_of("Retry", "models/router", "attempts", "mid_stream"),
    **_of("Retry", "models/reliability", "initial_delay_seconds", "max_delay_seconds"),
    **_of("Breaker", "models/breaker", "failure_rate"),
    **_of("Retry", "models/retry_schedule", "total_seconds", "budget_per_minute"),
    **_of("Breaker", "models/breaker", "failures", "window_seconds", "open_seconds"),
    **_of("Parameters", "models/kinds/openai", "temperature", "top_p", "max_tokens", "stop", "seed"),
    **_of("Parameters", "models/kinds/openai", "presence_penalty", "frequency_penalty"),
    **_of("Reasoning", "models/kinds/openai", "effort"),
    **_of("Reasoning", "models/prepare", "budget_tokens"),
    **_of("Script", "models/kinds/scripted", "rules", "default"),
    **_of("ScriptRule", "models/kinds/scripted", "match", "reply", "fail"),
    **_of("ScriptMatch", "models/kinds/scripted", "contains", "equals", "system", "turn", "after_tool", "tool_result"),
    **_of("ScriptReply", "models/kinds/scripted", "text", "reasoning", "tool_calls", "finish_reason", "chunk_size"),
    **_of("ScriptReply", "models/kinds/scripted", "chunks", "delay_seconds", "chunk_delay_seconds", "usage"),
    **_of("ScriptToolCall", "models/kinds/scripted", "id", "name", "args", "raw_args"),
    **_of("ScriptFailure", "models/kinds/scripted", "status", "kind", "message", "retry_after_seconds", "times"),
    **_of("ScriptFailure", "models/kinds/scripted", "after_chunks"),
    # -- Agent
    **_of("AgentSpec", "runtime/run/conductor", "backend"),
    **_of("AgentSpec", "workspace/specs/agent", "model", "model_plan"),
    **_of("AgentSpec", "workspace/agents", "instructions", "tools", "skills", "subagents"),
    **_of("AgentSpec", "policy/declared", "hooks"),
    **_of("AgentSpec", "runtime/run/steps/evidence", "evidence"),
    **_of("AgentSpec", "runtime/run/steps/backend", "context_policy", "max_turns", "max_reworks", "config"),
    **_of("AgentSpec", "runtime/run/conductor", "limits"),
    **_of("AgentSpec", "runtime/schedule/effective_settings", "concurrency"),
    **_of("AgentSpec", "runtime/intake/service", "busy_policy"),
    **_of("AgentSpec", "runtime/intake/submission_checks", "client_tools"),
    **_of("AgentSpec", "runtime/run/model_calls", "client_parameters"),
    **_of("AgentSpec", "runtime/run/model_calls", "parallel_tools", "parameters", "reasoning", "output_schema"),
    **_of("Subagent", "workspace/specs/agent", "agent", "tools"),
    **_of("ModelPlan", "models/plans", "primary", "fallbacks", "required_capabilities"),
    **_of("ContextPolicy", "backends/conversation", "strategy", "max_messages", "max_tokens", "compact_at_tokens"),
    **_of("ContextPolicy", "backends/conversation", "keep_last", "summary_model", "tool_result_bytes"),
    # -- Tool and McpServer
    **_of("ToolSpec", "tools/declared", "kind", "input", "output", "effect", "timeout_seconds", "max_output_bytes"),
    **_of("ToolSpec", "tools/declared", "excerpt_bytes", "approval", "rules", "paths", "repair", "examples"),
    **_of("ToolSpec", "tools/kinds/python", "entry"),
    **_of("ToolSpec", "tools/kinds/http", "http"),
    **_of("ToolSpec", "tools/kinds/mcp_tools", "mcp"),
    **_of("ToolSpec", "tools/kinds/subprocess", "subprocess"),
    **_of("ToolSpec", "tools/kinds/builtin", "config"),
    **_of("ApprovalRule", "workspace/specs/tool", "when"),
    **_of("ApprovalRule", "runtime/intake/interrupts", "approver"),
    **_of("Rule", "tools/declared", "check", "message", "example"),
    **_of("RepairPolicy", "tools/declared", "enabled", "json_", "names", "types", "enums", "model_round"),
    **_of("HttpTemplate", "tools/kinds/http", "method", "url", "headers", "query", "body", "json_", "text", "hosts"),
    **_of("HttpTemplate", "tools/kinds/http", "result", "ok_status"),
    **_of("McpTarget", "tools/kinds/mcp_tools", "server", "tool"),
    **_of("Subprocess", "tools/kinds/subprocess", "command", "env", "stdin", "result", "cpu_seconds", "memory_bytes"),
    **_of("Subprocess", "tools/kinds/subprocess", "max_processes", "network", "writable"),
    **_of(
        "McpServerSpec", "tools/kinds/mcp_tools", "command", "url", "env", "headers", "connect_seconds", "call_seconds"
    ),
    **_of("McpServerSpec", "tools/kinds/mcp_tools", "sessions", "shared", "tools"),
    **_of("McpTools", "tools/kinds/mcp_tools", "allow", "pins"),
    # -- Memory
    **_of("AgentSpec", "runtime/run/steps/memory", "memory"),
    **_of("MemorySpec", "memory/service", "kind", "type", "namespace", "config"),
    **_of("MemorySpec", "runtime/run/steps/memory", "read", "write"),
    **_of("MemorySpec", "memory/recollection", "recall"),
    **_of("MemorySpec", "memory/governance", "retention_days"),
    **_of("MemorySpec", "workspace/memories", "policy", "embedding"),
    **_of("CandidateRule", "memory/decisions", "when", "then"),
    **_of("Recall", "memory/recollection", "top_k", "min_score", "max_tokens"),
    # -- Hook
    **_of("HookSpec", "policy/declared", "on", "kind", "priority", "timeout_seconds", "match"),
    **_of("HookSpec", "policy/kinds/python", "entry", "config"),
    **_of("HookSpec", "policy/kinds/command", "command", "env"),
    **_of("HookMatch", "policy/declared", "tools", "agents"),
}
"""`Spec.field` to the module below `app/` that carries it out. `check` of a Rule is the compiled rule's."""
