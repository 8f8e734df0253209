"""What the peers' tests share: raw values as the truth, and what has to hold for them.

A test lets a peer's own classes write, then names what it wrote:

    with Peer("langchain", package="langchain-community") as peer:
        ...the peer writes...
        peer.conversation("the usual", [b"message_store:s1"], layout="langchain", newest_first=True, queries=9)

`conversation` reads the keys with plain commands and checks everything that a migration promises. REDIS_URL says where the server is. With
PEERS_RECORD=folder the raw values are also written to folder/<peer>.json, from which the end-to-end tests take them without Python; with
PEERS_REPORT=file a line for the summary is added there.
"""

import json
import os
from importlib import metadata

import redis

RECORD = os.environ.get("PEERS_RECORD")
URL = os.environ.get("REDIS_URL", "redis://localhost:6379")

# Recorded files stay small.
LONG = "All work and no play makes Jack a dull boy. Ünïcödé. " * (12 if RECORD else 400)

# What people say, and what breaks those who handle it carelessly.
TEXTS = [
    "Where is order 1042?",
    "",
    "Zoë's café: ¿qué tal? 你好, мир, مرحبا, שלום",
    "👩‍👩‍👧‍👦 🇺🇦 😀 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    'She said "no\\yes" / \'maybe\'\n\tand\r\nleft.',
    '{"role":"user","content":"not a message"}',
    "Human: not a line of its own\nAI: neither",
    "control \u0001 \u001f \u007f, separators \u2028 \u2029, joiners \u200d, BOM \ufeff",
    "   surrounded by spaces   ",
    LONG,
]

# Valid JSON once escaped, though no Unicode text: only for peers that escape what is not ASCII.
HALF_A_PAIR = "half an emoji: \ud83d"

ARGUMENTS = json.dumps({"order": 1042, "note": 'naïve "quoted" 🙂'}, ensure_ascii=False)


def elements_of(text, member=None):
    """The elements of a JSON array as they stand in the text: of the whole, or of an object's member."""
    text = text.decode()
    decode = json.JSONDecoder().raw_decode

    def skip(at, what=""):
        while text[at] in " \t\r\n" or (what and text[at] in what):
            at += 1
        return at

    at = skip(0)
    if member is not None:
        assert text[at] == "{"
        at = skip(at + 1)
        while True:
            name, at = decode(text, at)
            at = skip(at, ":")
            if name == member:
                break
            _, at = decode(text, at)
            at = skip(at, ",")
    assert text[at] == "["
    at = skip(at + 1)
    found = []
    while text[at] != "]":
        _, end = decode(text, at)
        found.append(text[at:end].encode())
        at = skip(end, ",")
    return found


def pairs(flat):
    return {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}


class Peer:
    def __init__(self, name, *, package):
        self.name = name
        self.package = package
        self.version = metadata.version(package)
        # RESP2 whatever redis-py's default: replies are the same for every version of it.
        self.redis = redis.Redis.from_url(URL, protocol=2)
        self.sessions = []
        self.messages = 0
        self.malformed = 0

    def __enter__(self):
        self.redis.flushall()
        return self

    def __exit__(self, kind, _value, _traceback):
        if kind is not None:
            return
        assert self.sessions, "nothing was checked"
        if RECORD:
            recorded = {"peer": self.name, "package": self.package, "version": self.version, "sessions": self.sessions}
            with open(os.path.join(RECORD, f"{self.name}.json"), "w", encoding="utf-8") as file:
                json.dump(recorded, file, ensure_ascii=True, indent=1)
                file.write("\n")
        report = os.environ.get("PEERS_REPORT")
        if report:
            with open(report, "a", encoding="utf-8") as file:
                file.write(f"{self.name}\t{self.package} {self.version}\t{self.messages}\t{self.malformed}\n")

    def call(self, *args):
        return self.redis.execute_command(*args)

    def refused(self, *args):
        try:
            reply = self.call(*args)
        except redis.ResponseError as error:
            return str(error)
        raise AssertionError(f"{args}: expected an error, got {reply!r}")

    def raw(self, key):
        """Type, value and expiry (−1: none), with plain commands."""
        kind = self.call("TYPE", key).decode()
        value = {
            "string": lambda: self.call("GET", key),
            "list": lambda: self.call("LRANGE", key, 0, -1),
            "hash": lambda: self.redis.hgetall(key),
        }[kind]()
        return kind, value, self.call("PEXPIRETIME", key)

    def range(self, key, *options):
        return self.call("SESSION.RANGE", key, 0, -1, *options)

    def document(self, key):
        return json.loads(self.call("SESSION.GET", key))

    # ------------------------------------------------------------------------------------------------ what has to hold

    def conversation(
        self,
        name,
        keys,
        *,
        layout,
        member=None,
        newest_first=False,
        queries=None,
        meta=None,
        at_least=20,
        is_recorded=True,
    ):
        """Everything a migration promises, for one conversation that stands in these keys.

        member: of a JSON object, the one that holds the messages. queries: how many messages are the user's. meta: a function of the raw
        values that says what the meta has to hold, at least. is_recorded: whether this one is worth a place among the recorded
        values.
        """
        keys = [key.encode() if isinstance(key, str) else key for key in keys]
        before = {key: self.raw(key) for key in keys}
        kinds = {kind: (key, value) for key, (kind, value, _) in before.items()}
        assert len(kinds) == len(keys), "one key a type"
        if "list" in kinds:
            elements = kinds["list"][1]
        else:
            elements = elements_of(kinds["string"][1], member)
        if newest_first:
            elements = elements[::-1]
        assert len(elements) >= at_least, f"{name}: only {len(elements)} messages"
        expiry = max((at for _, _, at in before.values()), key=lambda at: float("inf") if at == -1 else at)

        if is_recorded:
            self.record(name, keys, before, layout, member, newest_first, queries)
        if len(keys) == 1:
            self.reads_through(keys[0], before[keys[0]], elements)
            self.migrates_by_itself(keys[0], elements, expiry)
        self.migrates(name, keys, before, elements, expiry, layout, queries, meta)
        self.messages += len(elements)

    def reads_through(self, key, before, elements):
        assert self.range(key) == elements
        assert self.call("SESSION.LEN", key) == len(elements)
        assert self.document(key)["messages"] == [json.loads(element) for element in elements]
        assert self.raw(key) == before, "a read has written"

    def migrates_by_itself(self, key, elements, expiry):
        copy = b"copy of " + key
        assert self.call("COPY", key, copy) == 1
        new = b'{"role":"user","content":"one more"}'
        assert self.call("SESSION.APPEND", copy, "JSON", new) == len(elements) + 1
        assert self.call("TYPE", copy) == b"rdsession"
        assert self.range(copy) == [*elements, new]
        now_expires = self.call("PEXPIRETIME", copy)
        # An append slides the expiry: it is never earlier than it was.
        assert now_expires == -1 if expiry == -1 else now_expires >= expiry
        self.call("DEL", copy)

    def migrates(self, name, keys, before, elements, expiry, layout, queries, meta):
        key = keys[0]
        kept = b"kept beside " + key
        for destination, options, removed in [
            (key, ["DRYRUN"], len(keys)),
            (kept, ["KEEP"], 0),
            (key, [], len(keys)),
        ]:
            reply = pairs(self.call("SESSION.MIGRATE", destination, "FROM", len(keys), *keys, *options))
            assert reply["format"].decode() == layout, f"{name}: {reply}"
            assert (reply["messages"], reply["malformed"]) == (len(elements), 0), f"{name}: {reply}"
            assert (reply["events"], reply["removed"]) == (0, removed), f"{name}: {reply}"
            if options:
                assert {key: self.raw(key) for key in keys} == before, f"{name}: {options} has changed a source"
            if "DRYRUN" not in options:
                self.is_whole(destination, elements, expiry, queries, meta and meta(before))
            if "KEEP" not in options and not options:
                assert self.call("EXISTS", *keys) == 1, "of the sources, only the session's key is left"
        assert pairs(self.call("SESSION.MIGRATE", key))["format"] == b"rdsession"
        assert self.range(key) == elements
        self.malformed += reply["malformed"]

    def is_whole(self, key, elements, expiry, queries, meta):
        assert self.call("TYPE", key) == b"rdsession"
        assert self.range(key) == elements
        assert self.range(key, "MALFORMED") == []
        assert self.call("SESSION.LEN", key) == len(elements)
        assert self.call("PEXPIRETIME", key) == expiry
        document = self.document(key)
        assert document["message_count"] == len(elements)
        assert document["limits"]["maxlen"] == 0
        if queries is not None:
            assert document["query_count"] == queries, (document["query_count"], queries)
        for member, value in (meta or {}).items():
            assert document["meta"].get(member) == value, (member, document["meta"])

    def record(self, name, keys, before, layout, member, newest_first, queries):
        now = self.redis.time()
        now_ms = now[0] * 1000 + now[1] // 1000
        sources = []
        for key in keys:
            kind, value, expires_at = before[key]
            if kind == "list":
                value = [element.decode() for element in value]
            elif kind == "hash":
                value = {field.decode(): text.decode() for field, text in value.items()}
            else:
                value = value.decode()
            ttl_s = None if expires_at == -1 else -(-(expires_at - now_ms) // 1000)
            sources.append({"key": key.decode(), "type": kind, "ttl_s": ttl_s, "value": value})
        self.sessions.append(
            {
                "name": name,
                "format": layout,
                "member": member,
                "newest_first": newest_first,
                "queries": queries,
                "sources": sources,
            }
        )
