"""A conversation in a Redis session, with redis-py.

    pip install redis
    python redis_py.py            (REDIS_URL chooses the server, default redis://localhost:6379)

The SESSION.* commands need no library of their own: execute_command sends them, and with RESP3 maps come back as dicts.
"""

import json
import os
import uuid

import redis

r = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379"), protocol=3, decode_responses=True)
key = f"session:{uuid.uuid4()}"


def dumps(value):
    """Compact JSON, not escaped: the session keeps these bytes as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# A session whose system prompt is never evicted.
created = r.execute_command("SESSION.CREATE", key, "PIN", "system", "META", dumps({"customer": "Zoë"}))
print("created", created["id"])

# MSG composes the JSON; the reply is the message's seq.
r.execute_command("SESSION.APPEND", key, "MSG", "system", "You help customers of a small shop.")
seq = r.execute_command("SESSION.APPEND", key, "MSG", "user", "Where is order 1042?")
assert seq == 2, seq

# JSON takes whole messages, here a tool call and its answer, in one atomic step.
call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "get_order", "arguments": '{"order":1042}'}]}
answer = {"role": "tool", "tool_call_id": "c1", "content": '{"status":"shipped","arrives":"Friday"}'}
r.execute_command("SESSION.APPEND", key, "JSON", dumps(call), dumps(answer))

# A retry with the same token returns the first reply and appends nothing.
reply = ["SESSION.APPEND", key, "DEDUP", "request-7", "MSG", "assistant", "It was shipped and arrives on Friday."]
first, second = r.execute_command(*reply), r.execute_command(*reply)
assert first == second == 5
assert r.execute_command("SESSION.LEN", key) == 5

# Like LRANGE: returns the bodies byte for byte.
stored = r.execute_command("SESSION.RANGE", key, 0, -1)
assert stored[2:4] == [dumps(call), dumps(answer)], stored

# What to send to the model now: the pinned messages and the newest whole exchanges that fit.
context = r.execute_command("SESSION.CONTEXT", key, "MAXTOKENS", 110)
for message in map(json.loads, context["messages"]):
    print(f"  {message['role']:>9}: {message['content'] or message.get('tool_calls')}")
print(f"  ({context['tokens']} tokens, {context['omitted']} messages left out)")

# A window of 3 evicts whole exchanges, the oldest first; EVICTED returns them, for example to summarise them.
seq, evicted = r.execute_command("SESSION.APPEND", key, "MAXLEN", 3, "EVICTED", "MSG", "user", "Thank you!")
assert [json.loads(body)["role"] for body in evicted] == ["user", "assistant", "tool"], evicted

# The whole session is one JSON document.
session = json.loads(r.execute_command("SESSION.GET", key))
assert session["session_id"] == created["id"] and session["meta"] == {"customer": "Zoë"}
print("version", session["version"], "with", session["message_count"], "messages, expires", session["expires_at"])

# It is a key like any other: it has a TTL, which every write slides. EX sets another TTL for this session.
r.execute_command("SESSION.META", key, dumps({"resolved": True}), "EX", 3600)
assert 3590 <= r.ttl(key) <= 3600, r.ttl(key)

# The first word of an error is its code. Here the session has been written since version 1.
try:
    r.execute_command("SESSION.APPEND", key, "IFVERSION", 1, "MSG", "user", "Hello?")
    raise AssertionError("version 1 is long gone")
except redis.ResponseError as error:
    assert str(error).startswith("VERSIONCONFLICT"), error
    print("refused:", error)

r.delete(key)
print("redis-py", redis.__version__, "ok")
