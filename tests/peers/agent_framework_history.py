"""agent-framework-redis: RedisHistoryProvider (RedisChatMessageStore, before) appends messages with contents to a list.

Its keys are `chat_messages:{id}` no more, unless asked for: a scope stands between, parted by bars. It has no ttl.
"""

# pip: agent-framework-redis==1.0.0b261022 agent-framework-core==1.23.0 redis==7.1.1

import asyncio
import warnings

from agent_framework import Content, Message
from agent_framework_redis import RedisHistoryProvider
from peer import ARGUMENTS, HALF_A_PAIR, TEXTS, URL, Peer

warnings.simplefilter("ignore")  # of keys in the older form


def messages():
    conversation = [Message("system", ["You help customers."])]
    for number, text in enumerate([*TEXTS, HALF_A_PAIR]):
        conversation += [
            Message("user", [text], message_id=f"u{number}", author_name="Zoë"),
            Message("assistant", [text], message_id=f"a{number}"),
        ]
    return conversation + [
        Message(
            "user",
            [
                Content.from_text("What is this?"),
                Content.from_data(b"\x89PNG\r\n\x1a\n", "image/png"),
                Content.from_uri("https://example.com/ünïcode.pdf", media_type="application/pdf"),
                Content.from_hosted_file("file_1"),
            ],
        ),
        Message("assistant", [Content.from_text_reasoning(text="Let me see …", protected_data="b3BhcXVl")]),
        Message(
            "assistant",
            [
                Content.from_text("I look it up."),
                Content.from_function_call("call_1", "get_order", arguments=ARGUMENTS),
                Content.from_function_call("call_2", "get_weather", arguments={"city": "Köln"}),
            ],
        ),
        Message("tool", [Content.from_function_result("call_1", result='{"status":"shipped ✓"}')]),
        Message("tool", [Content.from_function_result("call_2", exception="no weather today")]),
        Message("assistant", [Content.from_error(message="Too long.", error_code="length")]),
        Message("assistant", [Content.from_usage({"input_token_count": 12, "output_token_count": 3})]),
        Message("assistant", ["First part.", "Second part."], additional_properties={"a": {"b": [1, None, 2.5]}}),
        Message("assistant", []),
        Message("librarian", ["As it was in the manual."]),
        Message("user", ["Thanks."]),
    ]


async def write(session_id, conversation, **options):
    history = RedisHistoryProvider(redis_url=URL, **options)
    for start in range(0, len(conversation), 6):
        await history.save_messages(session_id, conversation[start : start + 6])
    kept = await history.get_messages(session_id)
    await history.aclose()
    return kept


async def main():
    with Peer("agent-framework", package="agent-framework-redis") as peer:
        everything = messages()
        scope = {"application_id": "shop", "tenant_id": "tënant/1", "agent_id": "clerk"}

        async def check(name, conversation, **options):
            known = set(peer.redis.scan_iter())
            kept = await write("s 1", conversation, **options)
            (key,) = set(peer.redis.scan_iter()) - known
            queries = sum(message.role == "user" for message in kept)
            peer.conversation(name, [key], layout="agent-framework", queries=queries)

        await check("every kind of message, at a key with scope", everything, **scope)
        await check("no tenant, and a window of its own", everything, application_id="shop", max_messages=24)
        await check("at a key in the older form", everything, key_format="legacy")


asyncio.run(main())
