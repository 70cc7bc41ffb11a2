"""Every code a diagnostic can have, with its meaning and what to do about it.

A code is a promise like the ones of `core.error_codes`; `docs/workspace.md` lists them all.
"""

from typing import Final

from app.core.error_codes import Code

CODES: Final[dict[str, Code]] = {
    # -- files -----------------------------------------------------------------------------------
    "FILE_TOO_LARGE": Code("A file is larger than 1 MiB.", "Split it; many files may hold one workspace."),
    "FILE_UNREADABLE": Code("A file or folder cannot be read.", "Check that it exists and its permissions."),
    "FILE_NAME": Code("A file name is not valid UTF-8 text.", "Rename the file."),
    "FILE_ENCODING": Code("A file is not UTF-8 text.", "Save it as UTF-8."),
    "FILE_IGNORED": Code("A file looks like part of the workspace but is not.", "Rename it as the message says."),
    "SYMLINK_LEAVES": Code("A symbolic link points out of the workspace.", "Copy the file into the workspace."),
    "SYMLINK_FOLDER": Code("A symbolic link to a folder is not followed.", "Use a real folder."),
    "TOO_MANY_FILES": Code("The folder holds more than a workspace may.", "Check that it is the right folder."),
    "PATH_LEAVES": Code("A path points out of the workspace.", "Use a path beneath the workspace's folder."),
    "WORKSPACE_EMPTY": Code("The folder holds no document of a workspace.", "Copy an example with `holdfast new DIR`."),
    # -- YAML ------------------------------------------------------------------------------------
    "YAML_SYNTAX": Code("The text is not YAML.", "Look at the named line: indentation, quotes and colons."),
    "YAML_ALIAS": Code("An alias (*name) is used.", "Write the value out; aliases are refused."),
    "YAML_TAG": Code("A tag (!name) is used.", "Remove it; values have the types of JSON."),
    "YAML_DUPLICATE_KEY": Code("A mapping names the same key twice.", "Keep one of them."),
    "YAML_KEY": Code("A key is not plain text.", "Use text as key."),
    "YAML_NUMBER": Code("A number is infinite, not a number, or over 64 bits.", "Quote it, or use another."),
    "YAML_TOO_DEEP": Code("Values are nested deeper than 64 levels.", "Flatten the document."),
    "TOO_MANY_DOCUMENTS": Code("There are more than 10,000 documents.", "Split the workspace."),
    # -- Markdown --------------------------------------------------------------------------------
    "FRONTMATTER_MISSING": Code("A Markdown file has no frontmatter.", "Begin it with a `---` block."),
    "FRONTMATTER_OPEN": Code("The frontmatter has no end.", "Close it with a line `---`."),
    "FRONTMATTER_INVALID": Code("The frontmatter breaks its schema.", "Compare it with schemas/contracts/."),
    # -- documents -------------------------------------------------------------------------------
    "DOCUMENT_NOT_MAPPING": Code("A document is not a mapping.", "Begin with apiVersion, kind, metadata, spec."),
    "API_VERSION": Code("The apiVersion is missing or unknown.", "Write `apiVersion: holdfast/v1`."),
    "KIND_MISSING": Code("A document has no kind.", "Write `kind: Agent` or another of the kinds named."),
    "KIND_UNKNOWN": Code("There is no such kind of document.", "Use one of the kinds in docs/workspace.md."),
    "FIELD_MISSING": Code("A required field is missing.", "Add the field that `expected` names."),
    "FIELD_UNKNOWN": Code("There is no such field.", "Correct the spelling or remove it."),
    "VALUE_NOT_ALLOWED": Code("A value is not one of those allowed.", "Use one of the values named."),
    "VALUE_INVALID": Code("A value has the wrong type or form.", "Write it in the form that `expected` shows."),
    "FIELD_CONFLICT": Code("Fields of one document contradict each other.", "Keep one of them, as the message says."),
    "NAME_DUPLICATE": Code("Two documents of a kind have the same name.", "Rename one of them."),
    "NAME_CLASH": Code("Two things that are named in the same place share a name.", "Rename one of them."),
    "NAME_DIFFERS": Code("A name differs from its folder or file.", "Make them the same."),
    # -- secrets ---------------------------------------------------------------------------------
    "SECRET_LITERAL": Code("A secret is written in the file.", "Write `${env:NAME}` and set the variable."),
    "ENV_NOT_LISTED": Code("An environment variable is not listed.", "Add its name to the Runtime's spec.env."),
    "ENV_MALFORMED": Code("A reference to the environment is malformed.", "Write `${env:NAME}`."),
    "ENV_NOT_HERE": Code("The environment is not read in this field.", "Move the secret to a field for it."),
    # -- references ------------------------------------------------------------------------------
    "RUNTIME_MISSING": Code(
        "The workspace has no Runtime document.", "Add runtime.yaml with a `kind: Runtime` document."
    ),
    "RUNTIME_DUPLICATE": Code("The workspace has two Runtime documents.", "Move what both say into one of them."),
    "DEFAULT_AGENT_MISSING": Code("No agent answers a request that names none.", "Set the Runtime's defaultAgent."),
    "AGENT_UNKNOWN": Code("There is no such agent.", "Correct the name or add the Agent."),
    "MODEL_UNKNOWN": Code("There is no such model.", "Correct the name or add the Model."),
    "TOOL_UNKNOWN": Code("There is no such tool.", "Correct the name or add the Tool."),
    "SKILL_UNKNOWN": Code("There is no such skill.", "Correct the name or add skills/<name>/SKILL.md."),
    "MEMORY_UNKNOWN": Code("There is no such memory.", "Correct the name or add the Memory."),
    "MEMORY_KIND_UNKNOWN": Code("There is no such kind of memory.", "Use `store`, `vector` or an installed kind."),
    "MEMORY_EMBEDDING": Code(
        "The `embedding` of a Memory does not fit its kind.",
        "Name a Model with `embedding` for the kind `vector`, and remove it for others.",
    ),
    "NAMESPACE_INVALID": Code(
        "The template of a namespace is not valid.",
        "Use {tenant}, {agent}, {user}, {thread} and {memory}, such as `{tenant}/{agent}/{user}`.",
    ),
    "HOOK_UNKNOWN": Code("There is no such hook.", "Correct the name or add the Hook."),
    "HOOK_NOT_LISTED": Code("A hook is never asked.", "List it in `hooks` of the Runtime or of an Agent."),
    "GUARDRAIL_NOT_LISTED": Code("A guardrail is never asked.", "List it in `guardrails` of an Agent, at a stage."),
    "GUARDRAIL_KIND_UNKNOWN": Code("There is no such kind of guardrail.", "Use one of the kinds named, such as `pii`."),
    "GUARDRAIL_UNKNOWN": Code("There is no such guardrail.", "Correct the name or add the Guardrail."),
    "EVALUATOR_UNKNOWN": Code("There is no such evaluator.", "Correct the name or add the Evaluator."),
    "WORKFLOW_UNKNOWN": Code("There is no such workflow.", "Correct the name or add the Workflow."),
    "MCP_SERVER_UNKNOWN": Code("There is no such MCP server.", "Correct the name or add the McpServer."),
    "MCP_TOOL_NOT_ALLOWED": Code("The MCP server does not allow this tool.", "Add it to the server's tools."),
    "PROFILE_UNKNOWN": Code("There is no such profile.", "Correct HOLDFAST_PROFILE or add the Profile."),
    "PHASE_UNKNOWN": Code("There is no such phase.", "Correct the id or add workflows/phases/<id>.md."),
    "POLICY_UNKNOWN": Code("There is no such policy.", "Correct the id or add workflows/policies/<id>.md."),
    "PERSONA_UNKNOWN": Code("There is no such persona or agent.", "Add workflows/personas/<id>.md."),
    "ARTIFACT_UNKNOWN": Code(
        "There is no such artifact template.", "Correct the id or add workflows/artifacts/<id>-template.md."
    ),
    "SCHEMA_UNKNOWN": Code(
        "There is no such schema.",
        "Use one of the ids in schemas/contracts/, or the path of a JSON file of the workspace.",
    ),
    "ROLE_UNKNOWN": Code("There is no such role.", "Name the file after one of the six roles."),
    "NODE_UNKNOWN": Code("An edge names a node that does not exist.", "Use the id of a node."),
    "NODE_UNREACHABLE": Code("A node is never reached.", "Add an edge that leads to it, or remove its edges."),
    "ROUTE_INVALID": Code(
        "A label of an edge and the rules of a router do not fit together.",
        "Give each label one edge, and each node with labelled edges a router that names every label.",
    ),
    "EDGE_CYCLE": Code(
        "The edges of an agent or a workflow lead in a circle.", "Remove an edge, or allow it with `maxVisits`."
    ),
    "WORKFLOW_ENDLESS": Code("The steps of a workflow lead in a circle without an end.", "Add an edge to END."),
    "SUBWORKFLOW_DENIED": Code(
        "A workflow runs another one and does not declare `subworkflows`.", "Add `subworkflows: {maxDepth: 3}`."
    ),
    "SUBWORKFLOW_CYCLE": Code("Workflows run each other in a circle.", "Remove one of the steps."),
    "SUBWORKFLOW_TOO_DEEP": Code(
        "Workflows nest deeper than `subworkflows.maxDepth`.", "Nest fewer of them, or raise `maxDepth`."
    ),
    "SKILL_WITHOUT_AGENT": Code(
        "It is not clear which agent follows the skill of a step.", "Name it in `agent`, and give it the skill."
    ),
    "REFERENCE_DUPLICATE": Code("A list names the same thing twice.", "Remove one of them."),
    "NAME_RESERVED": Code("The name has a meaning of its own on the wire.", "Choose another name."),
    "SUBAGENT_CYCLE": Code("Subagents call each other in a circle.", "Remove one of the calls."),
    "SUBAGENT_TOOLS": Code(
        "A subagent cannot use some of its tools, or is passed tools that it does not have.",
        "Pass them on with `subagents: [{agent, tools}]`, or correct the lists.",
    ),
    "FALLBACK_CYCLE": Code("Model fallbacks lead back to the model.", "Remove one of the fallbacks."),
    "FILE_NOT_FOUND": Code("A file that is named does not exist.", "Correct the path or add the file."),
    # -- kinds -----------------------------------------------------------------------------------
    "BACKEND_UNKNOWN": Code("There is no such backend.", "Use one of the backends named, such as `native`."),
    "PROVIDER_UNKNOWN": Code(
        "There is no such provider.", "Use one of the providers named; `openai` is for compatible servers too."
    ),
    "TOOL_KIND_UNKNOWN": Code("There is no such kind of tool.", "Use one of the kinds named, such as `python`."),
    "BUILTIN_UNKNOWN": Code("There is no such built-in tool.", "Use one of the built-in tools."),
    "KIND_NOT_INSTALLED": Code("What is asked for needs an optional extra.", "Install the extra named."),
    "KIND_BROKEN": Code(
        "A kind of an installed package cannot be loaded.", "Correct or remove the package that the message names."
    ),
    "ADAPTER_UNKNOWN": Code("No workflow adapter has this name.", "Register it, or correct the name."),
    "EVALUATOR_KIND_UNKNOWN": Code(
        "There is no such kind of evaluator.", "Use one of the kinds named, such as `contains`."
    ),
    "HANDLER_UNKNOWN": Code(
        "There is no such built-in handler.", "Use one of those named, or `kind: python` with a function."
    ),
    "ENTRY_MALFORMED": Code("An entry is not `module:function`.", "Write it as module:function."),
    "ENTRY_NOT_FOUND": Code(
        "An entry's module or function does not exist.", "Name a file of the workspace and a function in it."
    ),
    "PYTHON_SYNTAX": Code("A Python file of the workspace does not parse.", "Correct the Python at the named line."),
    "NOT_SERVED": Code("This version does not carry out what is declared.", "Remove it, or do as the hint says."),
    # -- meaning ---------------------------------------------------------------------------------
    "SCHEMA_TOO_COMPLEX": Code(
        "A JSON Schema is too large, or its references stand for too many branches.",
        "Simplify it; the message names the limit.",
    ),
    "SCHEMA_INVALID": Code("A JSON Schema is not valid.", "Compare the named place with JSON Schema 2020-12."),
    "SCHEMA_KEYWORD_UNKNOWN": Code(
        "A JSON Schema has a keyword that does not exist.", "Correct the spelling that the hint suggests."
    ),
    "SCHEMA_REMOTE_REF": Code("A schema refers outside of itself.", "Copy what it refers to into $defs."),
    "SCHEMA_NOT_OBJECT": Code("A tool's input is not an object.", "Write `type: object` with properties."),
    "OUTPUT_SCHEMA_MISSING": Code("A tool has an input schema and no output schema.", "Declare `output`."),
    "EXPRESSION_INVALID": Code(
        "A CEL expression does not compile to a bool.", "Write a comparison, such as `args.amount > 100`."
    ),
    "TEMPLATE_INVALID": Code("A template is malformed.", "Write each place as `{{ args.name }}`."),
    "TEMPLATE_TYPE": Code(
        "A template reads a value that its schema does not have, or of another type than is wanted.",
        "Use a field that the message names, or correct the schema.",
    ),
    "NODE_NOT_BEFORE": Code(
        "A template reads a step that never runs before.", "Read an earlier step, or add an edge that leads from it."
    ),
    "ARGUMENT_MISSING": Code("A step does not give an argument that its tool requires.", "Add it to `with`."),
    "ARGUMENT_UNKNOWN": Code("The tool has no such argument.", "Use a property of the input schema."),
    "SIGNATURE_DIFFERS": Code("A Python function takes other arguments than its schema.", "Make them the same."),
    "TEMPLATE_BRACES": Code("A template has single braces.", "Write `{{ args.name }}` with two braces."),
    "EXAMPLE_INVALID": Code(
        "An example breaks the input schema.", "Change the example as `expected` says, or the schema."
    ),
    "CAPABILITY_UNMET": Code("No model of the plan has the capability.", "Declare it, or choose another model."),
    "CONFIG_BACKEND_UNKNOWN": Code("A config section names no known backend.", "Use a backend's name."),
    "SKILL_INVALID": Code("A skill is invalid.", "Correct it; until then no agent may name it."),
    "SKILL_BROKEN": Code("An agent names a skill that is invalid.", "Correct the skill, or take it off the agent."),
    "SKILL_WITHOUT_TOOLS": Code(
        "A skill allows none of its agent's tools.", "Give the agent one of them, or allow others."
    ),
    "PROMPT_EMPTY": Code("A prompt has no text.", "Write the text below the frontmatter, or remove the file."),
    "SCHEDULE_INVALID": Code("A schedule's time cannot be read.", "Write five cron fields, such as `0 9 * * 1`."),
}
