"""langchain-community: RedisChatMessageHistory pushes messages to the head of a list. It needs no search module."""

# pip: langchain-community==0.4.2 redis==8.1.0

import warnings

warnings.simplefilter("ignore")  # its own deprecations

from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from peer import HALF_A_PAIR, TEXTS, URL, Peer


def messages():
    conversation = [SystemMessage("You help customers.")]
    for number, text in enumerate([*TEXTS, HALF_A_PAIR]):
        conversation += [HumanMessage(text, id=f"h{number}"), AIMessage(text)]
    usage = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    calls = [
        {"name": "get_order", "args": {"order": 1042, "note": 'naïve "quoted" 🙂'}, "id": "call_1", "type": "tool_call"},
        {"name": "get_weather", "args": {}, "id": "call_2", "type": "tool_call"},
    ]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    return conversation + [
        HumanMessage([{"type": "text", "text": "What is this?"}, image], name="Zoë"),
        AIMessage("", tool_calls=calls, usage_metadata=usage, response_metadata={"model": "a model", "logprobs": None}),
        ToolMessage('{"status":"shipped ✓"}', tool_call_id="call_1", artifact={"raw": [1, 2.5, None, True]}),
        ToolMessage("no weather today", tool_call_id="call_2", status="error"),
        AIMessage([{"type": "text", "text": "First part."}, {"type": "text", "text": "Second part."}]),
        AIMessage("", invalid_tool_calls=[{"name": "x", "args": "{", "id": "c", "error": "not JSON", "type": "invalid_tool_call"}]),
        FunctionMessage("12 °C", name="get_weather"),
        ChatMessage("As it was in the manual.", role="librarian"),
        HumanMessage("Thanks.", additional_kwargs={"user": {"id": 7}}),
    ]


def write(session_id, conversation, **options):
    history = RedisChatMessageHistory(session_id, url=URL, **options)
    history.add_messages(conversation)
    assert [message.content for message in history.messages] == [message.content for message in conversation]
    return history.key


with Peer("langchain", package="langchain-community") as peer:
    everything = messages()
    queries = sum(isinstance(message, HumanMessage) for message in everything)
    options = {"layout": "langchain", "newest_first": True}
    peer.conversation("every kind of message", [write("everything", everything)], queries=queries, **options)
    key = write("tënant/1 x", everything, ttl=900)
    peer.conversation("with a ttl", [key], queries=queries, **options)
    key = write("bare", everything[:20], key_prefix="")
    assert key == "bare"
    peer.conversation("without a prefix", [key], queries=10, at_least=20, **options)
    # What was streamed is kept as a chunk, the sum of its chunks.
    streamed = [*everything[:20], AIMessageChunk("Str") + AIMessageChunk("eamed.")]
    peer.conversation("a streamed answer", [write("streamed", streamed)], queries=10, **options)
