"""llama-index: RedisChatStore appends messages with blocks to a list at the bare key."""

# pip: llama-index-storage-chat-store-redis==0.8.0 llama-index-core==0.14.25 redis==8.1.0

import asyncio

from llama_index.core.base.llms.types import AudioBlock, ChatMessage, DocumentBlock, ImageBlock, MessageRole, TextBlock
from llama_index.core.llms import ChatMessage as Message
from llama_index.storage.chat_store.redis import RedisChatStore
from peer import ARGUMENTS, TEXTS, URL, Peer

assert Message is ChatMessage


def messages():
    conversation = [ChatMessage(role=MessageRole.SYSTEM, content="You help customers.")]
    for text in TEXTS:
        conversation += [ChatMessage(role="user", content=text), ChatMessage(role="assistant", content=text)]
    call = {"id": "call_1", "type": "function", "function": {"name": "get_order", "arguments": ARGUMENTS}}
    return conversation + [
        ChatMessage(
            role="user",
            blocks=[
                TextBlock(text="What is this?"),
                ImageBlock(image=b"\x89PNG\r\n\x1a\n", image_mimetype="image/png"),
                ImageBlock(url="https://example.com/ünïcode.png"),
                AudioBlock(audio=b"RIFF", format="wav"),
                DocumentBlock(data=b"%PDF-", title="a paper", document_mimetype="application/pdf"),
            ],
        ),
        ChatMessage(role="assistant", content=None, additional_kwargs={"tool_calls": [call]}),
        ChatMessage(role="tool", content='{"status":"shipped ✓"}', additional_kwargs={"tool_call_id": "call_1", "name": "get_order"}),
        ChatMessage(role="function", content="12 °C", additional_kwargs={"name": "get_weather"}),
        ChatMessage(role="developer", content="Be brief."),
        ChatMessage(role="assistant", blocks=[TextBlock(text="First part."), TextBlock(text="Second part.")]),
        ChatMessage(role="chatbot", content="A chatbot speaks."),
        ChatMessage(role="model", content="A model speaks."),
        ChatMessage(role="assistant", blocks=[]),
        ChatMessage(role="user", content="Thanks."),
    ]


def newer_blocks():
    """What only some versions have."""
    from llama_index.core.base.llms import types

    blocks = []
    if hasattr(types, "ThinkingBlock"):
        blocks.append(types.ThinkingBlock(content="Let me see …", num_tokens=3))
    if hasattr(types, "ToolCallBlock"):
        blocks.append(types.ToolCallBlock(tool_call_id="call_2", tool_name="get_weather", tool_kwargs={"city": "Köln"}))
    if hasattr(types, "CitableBlock"):
        blocks.append(types.CitableBlock(title="t", source="s", content=[TextBlock(text="c")]))
    return [ChatMessage(role="assistant", blocks=[block]) for block in blocks]


async def write_async(key, conversation):
    store = RedisChatStore(redis_url=URL)
    for message in conversation:
        await store.async_add_message(key, message)


with Peer("llama-index", package="llama-index-storage-chat-store-redis") as peer:
    everything = messages() + newer_blocks()
    queries = sum(message.role == MessageRole.USER for message in everything)
    store = RedisChatStore(redis_url=URL)
    for message in everything:
        store.add_message("everything", message)
    assert len(store.get_messages("everything")) == len(everything)
    peer.conversation("every kind of message", ["everything"], layout="llama-index", queries=queries)

    store = RedisChatStore(redis_url=URL, ttl=900)
    store.set_messages("tënant/1 x", everything)
    peer.conversation("with a ttl", ["tënant/1 x"], layout="llama-index", queries=queries)

    store.add_message("tënant/2", everything[0])
    store.set_messages("tënant/2", everything[:21])
    store.add_message("tënant/2", ChatMessage(role="user", content="Put in between."), idx=3)
    peer.conversation("a message put in between", ["tënant/2"], layout="llama-index", queries=11)

    asyncio.run(write_async("async", everything))
    peer.conversation("written asynchronously", ["async"], layout="llama-index", queries=queries)
