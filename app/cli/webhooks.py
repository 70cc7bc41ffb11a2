"""`holdfast webhooks`: creates, lists and deletes webhooks, and shows and repeats their deliveries."""

from typing import Annotated, Literal

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Webhooks: list, create, delete, rotate, deliveries, redeliver.")

WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's id.")]


@app.command("list")
@server_command
async def list_webhooks(session: CommandSession) -> None:
    """List the webhooks of the tenant."""
    found = (await session.client.get("/api/webhooks"))["items"]
    session.table(
        found,
        {
            "webhook": lambda one: one["id"],
            "url": lambda one: one["url"],
            "events": lambda one: ", ".join(one["events"]),
            "state": lambda one: "enabled" if one["enabled"] else one["disabledReason"] or "disabled",
        },
    )


@app.command("create")
@server_command
async def create_webhook(
    session: CommandSession,
    address: Annotated[str, typer.Argument(metavar="URL", help="Where to send deliveries.")],
    event: Annotated[
        list[str], typer.Option("--event", help="A type of event, or a pattern such as `runtime.job.*`; repeatable.")
    ],
    agent: Annotated[list[str] | None, typer.Option(help="Only runs of this agent; repeatable.")] = None,
) -> None:
    """Create a webhook. The secret is printed once."""
    made = await session.client.post("/api/webhooks", {"url": address, "events": event, "agents": agent or []})
    session.result(made, made["secret"] if session.quiet else f"{made['id']}\nsecret: {made['secret']}")


@app.command("delete")
@server_command
async def delete_webhook(session: CommandSession, webhook: WebhookId) -> None:
    """Delete a webhook and its deliveries."""
    from app.cli.client import path_of

    await session.client.call("DELETE", path_of("webhooks", webhook))
    session.result({"id": webhook}, webhook if session.quiet else f"{webhook} is deleted")


@app.command("rotate")
@server_command
async def rotate_secret(session: CommandSession, webhook: WebhookId) -> None:
    """Give a webhook a new secret, which is printed once. The former one signs along for a day."""
    from app.cli.client import path_of

    made = await session.client.post(f"{path_of('webhooks', webhook)}/rotate-secret")
    session.result(made, made["secret"])


@app.command("deliveries")
@server_command
async def list_deliveries(
    session: CommandSession,
    webhook: WebhookId,
    status: Annotated[
        Literal["pending", "delivered", "dead"] | None, typer.Option(help="Only deliveries with this status.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 50,
) -> None:
    """List what was sent to a webhook, or is to be."""
    from app.cli.client import path_of

    address = f"{path_of('webhooks', webhook)}/deliveries"
    found = [one async for one in session.client.pages(address, limit, status=status)]
    session.table(
        found,
        {
            "delivery": lambda one: one["id"],
            "type": lambda one: one["type"],
            "status": lambda one: one["status"],
            "attempts": lambda one: one["attempts"],
            "answer": lambda one: one["answer"] or "",
            "created": lambda one: one["createdAt"],
        },
    )


@app.command("redeliver")
@server_command
async def redeliver(
    session: CommandSession,
    webhook: WebhookId,
    delivery: Annotated[str | None, typer.Option(help="One delivery; without it every dead one.")] = None,
) -> None:
    """Send a delivery that has ended again, or every dead one."""
    from app.cli.client import path_of

    body = {} if delivery is None else {"deliveryId": delivery}
    sent = await session.client.post(f"{path_of('webhooks', webhook)}/redeliver", body)
    session.result(sent, str(sent["count"]) if session.quiet else f"{sent['count']} to send again")
