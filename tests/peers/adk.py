"""What Google's ADK says: one conversation for all that keep its sessions in Redis.

There are several, each a test of its own: google-adk itself, and the packages google-adk-community and google-adk-redis. All keep
a session as one JSON object in a string with a ttl. State of the user and of the app stands at keys of its own that many sessions share: it is
left alone.
"""

import json
import logging
import uuid
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from peer import TEXTS


def content(role, *parts):
    return types.Content(role=role, parts=[types.Part(text=part) if isinstance(part, str) else part for part in parts])


def events():
    conversation = []
    for number, text in enumerate(TEXTS):
        turn = f"turn-{number}"
        conversation += [
            Event(author="user", invocation_id=turn, content=content("user", text)),
            Event(author="clerk", invocation_id=turn, content=content("model", text)),
        ]
    call = types.Part(function_call=types.FunctionCall(id="call_1", name="get_order", args={"order": 1042, "note": 'naïve "quoted" 🙂'}))
    answer = types.Part(function_response=types.FunctionResponse(id="call_1", name="get_order", response={"status": "shipped ✓"}))
    image = types.Part(inline_data=types.Blob(data=b"\x89PNG\r\n\x1a\n\xff", mime_type="image/png"))
    file = types.Part(file_data=types.FileData(file_uri="https://example.com/ünïcode.pdf", mime_type="application/pdf"))
    thought = types.Part(text="Let me see …", thought=True)
    delta = {"cart": [1, 2.5, None, True], "user:name": "Zoë", "app:motd": "open till 8", "temp:x": 1}
    return conversation + [
        Event(author="user", invocation_id="i", content=content("user", "What is this?", image, file)),
        Event(author="clerk", invocation_id="i", content=content("model", thought, "I look it up.", call)),
        Event(author="clerk", invocation_id="i", content=content("user", answer)),
        Event(author="clerk", invocation_id="i", content=content("model", "First part.", "Second part."), branch="a.b"),
        Event(author="clerk", invocation_id="i", actions=EventActions(state_delta=delta)),
        Event(author="clerk", invocation_id="i", actions=EventActions(transfer_to_agent="librarian", escalate=True)),
        Event(author="librarian", invocation_id="i", error_code="SAFETY", error_message="I can't say."),
        Event(author="librarian", invocation_id="i", content=types.Content(role="model", parts=[])),
        Event(author="user", invocation_id="j", content=content("user", "Thanks."), custom_metadata={"a": {"b": 1}}),
    ]


async def check(peer, service, key_of):
    """Lets a service write sessions, which then stand at key_of(id)."""

    async def write(name, session_id, state):
        session = await service.create_session(app_name="shop", user_id="zoë", state=state, session_id=session_id)
        for event in events():
            await service.append_event(session, event)
        kept = await service.get_session(app_name="shop", user_id="zoë", session_id=session.id)
        assert len(kept.events) == len(events())
        key = key_of(session.id)
        assert peer.call("PTTL", key) > 0

        def meta(raw):
            ((_, text, _),) = raw.values()
            whole = json.loads(text)
            return {member: whole[member] for member in ("app_name", "user_id", "state", "last_update_time")}

        # The others differ in their ids only.
        is_recorded = session_id == "everything"
        peer.conversation(name, [key], layout="adk", member="events", meta=meta, is_recorded=is_recorded)

    await write("every kind of event", "everything", {"cart": [], "app:motd": "closed", "user:name": "Z"})
    known = str(uuid.uuid4())
    await write("an id that is a UUID", known, {})
    assert peer.document(key_of(known))["session_id"] == known
    await write("an id of its own", None, None)
    shared = [key for key in peer.redis.scan_iter() if peer.call("TYPE", key) != b"rdsession"]
    assert shared, "what sessions share stands somewhere"
    for key in shared:
        assert peer.refused("SESSION.APPEND", key, "MSG", "user", "x").startswith("WRONGTYPE")
        assert peer.refused("SESSION.MIGRATE", key).startswith("BADLAYOUT")
