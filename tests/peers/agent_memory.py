"""agent-memory-server: working memory is one JSON document with messages and memories.

Up to 0.12.4 it is a string; later versions keep it with RedisJSON, which a server may not have, and turn strings into that by
themselves. The package asks for Python 3.12 and for much that only its service needs: what writes is content with less.
"""

# pip: --ignore-requires-python --no-deps agent-memory-server==0.12.4
# pip: agent-memory-client==0.14.0 mcp<2 pydantic-settings python-dotenv python-ulid pyyaml redis==7.1.1 redisvl==0.15.0 structlog

import asyncio
import os

os.environ.setdefault("DISABLE_AUTH", "true")

import redis.asyncio
from agent_memory_server.models import MemoryMessage, MemoryRecord, WorkingMemory
from agent_memory_server.utils.keys import Keys
from agent_memory_server.working_memory import get_working_memory, set_working_memory
from peer import HALF_A_PAIR, TEXTS, URL, Peer


def messages():
    conversation = [MemoryMessage(role="system", content="You help customers.")]
    for text in TEXTS:
        conversation += [MemoryMessage(role="user", content=text), MemoryMessage(role="assistant", content=text)]
    return conversation + [
        MemoryMessage(role="tool", content='{"status":"shipped ✓"}', id="tool-1"),
        MemoryMessage(role="assistant", content="It was shipped.", discrete_memory_extracted="t"),
        MemoryMessage(role="librarian", content="As it was in the manual."),
        MemoryMessage(role="user", content="Thanks."),
    ]


def memories():
    return [
        MemoryRecord(id="m1", text="Zoë likes trains 🚂", topics=["trains"], entities=["Zoë"], user_id="u"),
        MemoryRecord(id="m2", text="", memory_type="episodic"),
    ]


async def main():
    client = redis.asyncio.Redis.from_url(URL)
    with Peer("agent-memory", package="agent-memory-server") as peer:

        async def check(name, **options):
            memory = WorkingMemory(**options)
            await set_working_memory(memory, redis_client=client)
            key = Keys.working_memory_key(memory.session_id, user_id=memory.user_id, namespace=memory.namespace)
            kept = await get_working_memory(
                memory.session_id, user_id=memory.user_id, namespace=memory.namespace, redis_client=client
            )
            assert [message.content for message in kept.messages] == [message.content for message in memory.messages]

            def meta(_raw):
                return {
                    "summary": memory.context,
                    "user_id": memory.user_id,
                    "namespace": memory.namespace,
                    "data": memory.data or {},
                    "tokens": memory.tokens,
                    "memories": [record.model_dump(mode="json") for record in memory.memories],
                }

            queries = sum(message.role == "user" for message in memory.messages)
            peer.conversation(name, [key], layout="agent-memory", member="messages", queries=queries, meta=meta)

        await check("messages and nothing else", session_id="plain", messages=messages())
        await check(
            "all that there is, with a ttl",
            session_id="tënant/1 x",
            messages=messages(),
            memories=memories(),
            context="They spoke of orders; “nothing” was solved.",
            user_id="u:1",
            namespace="shop",
            tokens=1200,
            ttl_seconds=900,
            data={"cart": {"items": [1, 2.5, None, True, "é"]}},
        )
        halves = [MemoryMessage(role="user", content=HALF_A_PAIR) for _ in range(20)]
        await check("halves of characters", session_id="halves", messages=halves)
    await client.aclose()


asyncio.run(main())
