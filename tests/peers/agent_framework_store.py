"""agent-framework-redis until the end of 2025: RedisChatMessageStore, whose messages have their role in an object.

What it asked for has since moved on, so some of it is held back.
"""

# pip: agent-framework-redis==1.0.0b251120 agent-framework-core==1.0.0b251120 mcp<2 websockets

import asyncio

from agent_framework import (
    ChatMessage,
    DataContent,
    ErrorContent,
    FunctionCallContent,
    FunctionResultContent,
    TextContent,
    TextReasoningContent,
    UriContent,
)
from agent_framework_redis import RedisChatMessageStore
from peer import ARGUMENTS, HALF_A_PAIR, TEXTS, URL, Peer


def messages():
    conversation = [ChatMessage(role="system", text="You help customers.")]
    for number, text in enumerate([*TEXTS, HALF_A_PAIR]):
        conversation += [
            ChatMessage(role="user", text=text, message_id=f"u{number}", author_name="Zoë"),
            ChatMessage(role="assistant", text=text),
        ]
    image = DataContent(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")
    paper = UriContent(uri="https://example.com/ünïcode.pdf", media_type="application/pdf")
    return conversation + [
        ChatMessage(role="user", contents=[TextContent("What is this?"), image, paper]),
        ChatMessage(role="assistant", contents=[TextReasoningContent("Let me see …")]),
        ChatMessage(role="assistant", contents=[FunctionCallContent(call_id="call_1", name="get_order", arguments=ARGUMENTS)]),
        ChatMessage(role="assistant", contents=[FunctionCallContent(call_id="call_2", name="get_weather", arguments={"city": "Köln"})]),
        ChatMessage(role="tool", contents=[FunctionResultContent(call_id="call_1", result='{"status":"shipped ✓"}')]),
        ChatMessage(role="tool", contents=[FunctionResultContent(call_id="call_2", result={"deg": [1, None, 2.5]})]),
        ChatMessage(role="assistant", contents=[ErrorContent(message="Too long.", error_code="length")]),
        ChatMessage(role="assistant", contents=[]),
        ChatMessage(role="user", text="Thanks.", additional_properties={"a": {"b": True}}),
    ]


async def main():
    with Peer("agent-framework-store", package="agent-framework-redis") as peer:
        everything = messages()
        for name, session_id, options in [
            ("every kind of message", "everything", {}),
            ("another prefix, and a window of its own", "tënant/1 x", {"key_prefix": "shop", "max_messages": 24}),
        ]:
            store = RedisChatMessageStore(redis_url=URL, thread_id=session_id, **options)
            for start in range(0, len(everything), 6):
                await store.add_messages(everything[start : start + 6])
            peer.conversation(name, [store.redis_key], layout="agent-framework")
            await store.aclose()


asyncio.run(main())
