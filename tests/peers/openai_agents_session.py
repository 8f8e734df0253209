"""openai-agents: RedisSession writes a hash and a list of items; it knows a counter too, but adds items without it.

The classes of the response items say what an item looks like; `model_dump` is what the runner itself keeps.
"""

# pip: openai-agents[redis]==0.24.0 redis==8.1.0

import asyncio

from agents.extensions.memory.redis_session import RedisSession
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary
from peer import ARGUMENTS, HALF_A_PAIR, TEXTS, URL, Peer


def said(number, *texts):
    content = [ResponseOutputText(text=text, type="output_text", annotations=[]) for text in texts]
    message = ResponseOutputMessage(id=f"msg_{number}", role="assistant", type="message", status="completed", content=content)
    return message.model_dump(exclude_unset=True)


def items():
    conversation = [{"role": "system", "content": "You help customers."}, {"role": "developer", "content": "Be brief."}]
    for number, text in enumerate([*TEXTS, HALF_A_PAIR]):
        conversation += [{"role": "user", "content": text}, said(number, text)]
    refusal = ResponseOutputMessage(
        id="msg_r",
        role="assistant",
        type="message",
        status="completed",
        content=[ResponseOutputRefusal(refusal="I can't say.", type="refusal")],
    )
    return conversation + [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
                {"type": "input_file", "filename": "ünïcode.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            ],
        },
        ResponseReasoningItem(
            id="rs_1", type="reasoning", summary=[Summary(text="**Looking** it up", type="summary_text")]
        ).model_dump(exclude_unset=True),
        ResponseFunctionToolCall(
            id="fc_1", call_id="call_1", name="get_order", arguments=ARGUMENTS, type="function_call", status="completed"
        ).model_dump(exclude_unset=True),
        ResponseFunctionToolCall(
            id="fc_2", call_id="call_2", name="get_weather", arguments="{}", type="function_call"
        ).model_dump(exclude_unset=True),
        {"type": "function_call_output", "call_id": "call_1", "output": '{"status":"shipped ✓"}'},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "sunny"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "où?"}},
        {"type": "item_reference", "id": "msg_0"},
        said("two", "First part.", "Second part."),
        refusal.model_dump(exclude_unset=True),
        {"type": "message", "role": "user", "content": "Thanks."},
    ]


def meta_of(session_id):
    def meta(raw):
        counter = next((value for kind, value, _ in raw.values() if kind == "string"), None)
        expected = {"session_id": session_id}
        return expected | ({"counter": int(counter)} if counter is not None else {})

    return meta


async def write(session_id, conversation, **options):
    session = RedisSession.from_url(session_id, url=URL, **options)
    # By parts, as a runner adds them turn by turn.
    for start in range(0, len(conversation), 5):
        await session.add_items(conversation[start : start + 5])
    assert await session.get_items() == conversation
    await session.close()


async def main():
    with Peer("openai-agents", package="openai-agents") as peer:

        def check(name, prefix, session_id, conversation):
            keys = [f"{prefix}:{session_id}", f"{prefix}:{session_id}:messages", f"{prefix}:{session_id}:counter"]
            keys = [key for key in keys if peer.call("EXISTS", key)]
            queries = sum(item.get("role") == "user" for item in conversation)
            peer.conversation(name, keys, layout="openai-agents", queries=queries, meta=meta_of(session_id))

        everything = items()
        await write("everything", everything)
        check("every kind of item", "agents:session", "everything", everything)

        await write("tënant/1 x", everything, key_prefix="shop:sessions", ttl=900)
        check("another prefix, with a ttl", "shop:sessions", "tënant/1 x", everything)

        # Nothing in the package asks for the next number, but who does has a third key.
        await write("counted", everything[:25])
        session = RedisSession.from_url("counted", url=URL)
        assert [await session._get_next_id() for _ in range(3)] == [1, 2, 3]
        await session.close()
        check("with the counter", "agents:session", "counted", everything[:25])

        # Taken back and said again, as the package does when a turn is corrected.
        await write("corrected", everything[:24])
        session = RedisSession.from_url("corrected", url=URL)
        assert await session.pop_item() == everything[23]
        await session.add_items([{"role": "assistant", "content": "Corrected."}])
        await session.close()
        corrected = [*everything[:23], {"role": "assistant", "content": "Corrected."}]
        check("a corrected turn", "agents:session", "corrected", corrected)


asyncio.run(main())
