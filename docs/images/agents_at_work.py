#!/usr/bin/env python3
"""Agents that hold conversations on the primaries at these ports, until it is ended: docs/images/agents_at_work.py PORT…

Traffic swells and falls. Some requests are sent twice (DEDUP), some edits meet others (IFVERSION), some agents wait for what comes (READ).
"""
import bisect
import json
import math
import random
import socket
import sys
import threading
import time

SLOTS = 16384
FIRST_SLOTS = [0, 5461, 10922]  # as scripts/pictures-top deals them out
SESSIONS = 6000
WORDS = "the order was shipped yesterday and should arrive by Friday afternoon if customs does not keep it for longer than usual".split()


def slot(key):
    crc = 0
    for byte in key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc % SLOTS


def pack(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Node:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.replies = self.socket.makefile("rb")

    def reply(self):
        line = self.replies.readline()
        if line[:1] == b"$" and line[1:2] != b"-":
            self.replies.read(int(line[1:]) + 2)
        elif line[:1] == b"*":
            for _ in range(int(line[1:])):
                self.reply()

    def run(self, commands):
        self.socket.sendall(b"".join(pack(*command) for command in commands))
        for _ in commands:
            self.reply()


def found(random):
    """What a tool answers: rows of JSON, much of it the same in each."""
    flights = [
        {"flight_number": f"HAT{random.randint(100, 299):03}", "origin": "SFO", "destination": random.choice(["JFK", "MIA", "ORD"]),
         "scheduled_departure_time_est": f"{random.randint(0, 23):02}:00:00", "status": "available",
         "available_seats": {"basic_economy": random.randint(0, 19), "economy": random.randint(0, 19), "business": 3},
         "prices": {"basic_economy": 87, "economy": random.randint(100, 199), "business": 481}}
        for _ in range(random.randint(1, 8))
    ]
    return json.dumps(flights)


def says(random):
    return " ".join(random.choices(WORDS, k=random.randint(8, 60)))


def commands(key, random):
    """What one agent does next in one session."""
    token = random.randrange(1 << 60)
    yield "SESSION.APPEND", key, "DEDUP", token, "MSG", "user", says(random)
    if random.random() < 0.02:
        return
    call = json.dumps({"role": "assistant", "tool_calls": [{"id": f"c{token}", "name": "search_flights", "arguments": "{}"}]})
    answer = json.dumps({"role": "tool", "tool_call_id": f"c{token}", "content": found(random)})
    yield "SESSION.APPEND", key, "JSON", call, answer
    yield "SESSION.APPEND", key, "DEDUP", token + 1, "MSG", "assistant", "On its way."
    if random.random() < 0.04:
        yield "SESSION.APPEND", key, "DEDUP", token + 1, "MSG", "assistant", "On its way."
    if random.random() < 0.01:
        yield "SESSION.META", key, "{}", "IFVERSION", 1
    if random.random() < 0.15:
        yield "SESSION.EVENT", "ADD", key, random.choice(["modified", "passed", "broke"]), "AGENT", f"agent-{random.randint(1, 9)}"
    if random.random() < 0.002:
        yield "SESSION.CHECKPOINT", "CREATE", key


def work(node, keys, seed):
    own = random.Random(seed)
    begin = time.time()
    while True:
        now = time.time() - begin
        busy = 0.45 + 0.35 * math.sin(now / 9) + 0.2 * own.random()
        if 38 < now % 50 < 42:
            busy += 0.6
        batch = [command for key in own.sample(keys, 12) for command in commands(key, own)]
        node.run(batch)
        time.sleep(max(0.002, 0.045 - 0.035 * busy))


def wait(node, key):
    while True:
        node.run([("SESSION.READ", key, "$", "BLOCK", 0)])


def main():
    ports = [int(port) for port in sys.argv[1:]]
    of_port = {port: [] for port in ports}
    for n in range(SESSIONS):
        key = f"session:{n}"
        of_port[ports[bisect.bisect_right(FIRST_SLOTS, slot(key)) - 1]].append(key)
    for seed, (port, keys) in enumerate(of_port.items()):
        node = Node(port)
        for at in range(0, len(keys), 100):
            node.run([("SESSION.APPEND", key, "MSG", "user", says(random)) for key in keys[at:at + 100]])
        threading.Thread(target=work, args=(node, keys, seed), daemon=True).start()
        for key in keys[:8]:
            threading.Thread(target=wait, args=(Node(port), key), daemon=True).start()
    while True:
        time.sleep(1)


main()
