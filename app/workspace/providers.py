"""What to write for a provider that is known elsewhere but has no kind of its own here."""

from typing import Final

_COMPATIBLE: Final = "use `provider: openai` with `baseUrl: {}` and `apiKey: ${{env:{}}}`"


def _compatible(url: str, key: str) -> str:
    return _COMPATIBLE.format(url, key)


_AZURE: Final = (
    _compatible("https://RESOURCE.openai.azure.com/openai/v1", "AZURE_OPENAI_API_KEY")
    + ", and the name of the deployment as `model`"
)
_GATEWAY: Final = (
    "use `provider: openai` with the `baseUrl` of a gateway that offers it in the OpenAI format, such as LiteLLM"
)

PROVIDER_ADVICE: Final[dict[str, str]] = {
    "azure": _AZURE,
    "azure_openai": _AZURE,
    "azure-openai": _AZURE,
    "bedrock": _GATEWAY,
    "aws": _GATEWAY,
    "cohere": _GATEWAY,
    "vertex": _GATEWAY,
    "vertexai": _GATEWAY,
    "claude": "use `provider: anthropic`",
    "google": "use `provider: gemini`",
    "deepseek": _compatible("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "groq": _compatible("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": _compatible("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "openrouter": _compatible("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together": _compatible("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": _compatible("https://api.x.ai/v1", "XAI_API_KEY"),
    "litellm": "use `provider: openai` with the `baseUrl` of the proxy, such as http://localhost:4000/v1",
    "lmstudio": "use `provider: openai` with `baseUrl: http://localhost:1234/v1`",
    "vllm": "use `provider: openai` with the `baseUrl` of the server, such as http://localhost:8000/v1",
}
