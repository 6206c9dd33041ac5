"""For middleware of vLLM's server (ASGI 3): how the server is told of it, and reading a request whole."""

from __future__ import annotations

from omnicfg.engine.front.asgi import Message, Receive, Send
from omnicfg.engine.front.chat import BODY_MOST, body_too_long, refuse


def option(middleware: type) -> list[str]:
    """The words by which vLLM's server puts a middleware before all that it has by then."""
    return ["--middleware", f"{middleware.__module__}.{middleware.__name__}"]


async def whole(receive: Receive, send: Send) -> list[Message] | None:
    """A request's messages, up to the end of its body or to the client's leaving.

    ``None`` where the body has more than :data:`BODY_MOST` bytes; it has been refused then.
    """
    messages, size = [await receive()], 0
    while messages[-1]["type"] == "http.request":
        size += len(messages[-1].get("body", b""))
        if size > BODY_MOST:
            await refuse(send, 413, body_too_long(), "messages")
            return None
        if not messages[-1].get("more_body"):
            break
        messages.append(await receive())
    return messages


def body_of(messages: list[Message]) -> bytes:
    """The body that they bring."""
    return b"".join(message.get("body", b"") for message in messages)


def again(messages: list[Message], receive: Receive) -> Receive:
    """Gives the messages once more, then what follows them."""

    async def replayed() -> Message:
        return messages.pop(0) if messages else await receive()

    return replayed
