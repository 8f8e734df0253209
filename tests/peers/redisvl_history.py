"""redisvl: MessageHistory keeps a hash a message. It writes without a search module, which only its reads and its index need.

These are for the importer, not for SESSION.MIGRATE: what is checked is the shape that the importer relies on, and that the module leaves
such hashes alone. The recorded hashes are what the importer's own tests read.
"""

# pip: redisvl==0.28.0 redis==8.1.0

import json
import re
import warnings

from peer import TEXTS, URL, Peer
from redisvl.extensions.message_history import MessageHistory

warnings.simplefilter("ignore")  # of the older role `llm`

KNOWN = {"entry_id", "role", "content", "session_tag", "timestamp", "tool_call_id", "metadata"}
NEEDED = {"entry_id", "role", "content", "session_tag", "timestamp"}


def write(tag):
    """What was said, in order: role, content, and the other members."""
    history = MessageHistory("shop", session_tag=tag, redis_url=URL, create_index=False)
    said = [("system", "You help customers.", {})]
    for text in TEXTS:
        said += [("user", text, {}), ("assistant", text, {})]
    said += [
        ("assistant", '{"name":"get_order"}', {"tool_call_id": "call_1"}),
        ("tool", '{"status":"shipped ✓"}', {"tool_call_id": "call_1", "metadata": {"took_ms": 12, "où": "là"}}),
    ]
    for role, content, others in said:
        history.add_message({"role": role, "content": content, **others})
    # A pair at once, in which the assistant has an older name.
    history.store("Thanks.", "You are welcome.")
    return said + [("user", "Thanks.", {}), ("llm", "You are welcome.", {})]


with Peer("redisvl", package="redisvl") as peer:
    recorded = []
    for tag in ["everything", "tënant/1 x"]:
        said = write(tag)
        shape = re.compile(rb"shop:" + re.escape(tag.encode()) + rb":\d+\.\d+:[0-9a-f]{8}")
        hashes = {}
        for key in peer.redis.scan_iter():
            if peer.call("TYPE", key) == b"hash" and key.startswith(b"shop:" + tag.encode()):
                assert shape.fullmatch(key), key
                hashes[key] = peer.redis.hgetall(key)
        assert len(hashes) == len(said)
        for key, fields in hashes.items():
            names = {name.decode() for name in fields}
            assert NEEDED <= names <= KNOWN, names
            assert key == b"shop:" + fields[b"entry_id"]
            assert fields[b"session_tag"].decode() == tag
        # The order is that of the times, as decimal numbers of seconds.
        ordered = sorted(hashes.items(), key=lambda item: float(item[1][b"timestamp"]))
        times = [float(fields[b"timestamp"]) for _, fields in ordered]
        # Two of one call may have one time; then nothing says which came first.
        assert sorted(said[-2:]) == sorted((f[b"role"].decode(), f[b"content"].decode(), {}) for _, f in ordered[-2:])
        for (role, content, others), (key, fields) in zip(said[:-2], ordered[:-2]):
            assert (fields[b"role"].decode(), fields[b"content"].decode()) == (role, content)
            assert fields.get(b"tool_call_id", b"").decode() == others.get("tool_call_id", "")
            if "metadata" in others:
                assert json.loads(fields[b"metadata"]) == others["metadata"]
            before = peer.raw(key)
            assert peer.refused("SESSION.APPEND", key, "MSG", "user", "x").startswith("WRONGTYPE")
            assert peer.refused("SESSION.RANGE", key, 0, -1).startswith("WRONGTYPE")
            assert peer.refused("SESSION.MIGRATE", key).startswith("BADLAYOUT")
            assert peer.raw(key) == before
        peer.messages += len(said)
        sources = [
            {
                "key": key.decode(),
                "type": "hash",
                "ttl_s": None,
                "value": {name.decode(): value.decode() for name, value in fields.items()},
            }
            for key, fields in ordered
        ]
        peer.sessions.append({"name": tag, "format": "redisvl", "sources": sources})
