// A conversation in a Redis session, with Node's redis.
//
//     npm install redis
//     node node_redis.mjs            (REDIS_URL chooses the server, default redis://localhost:6379)
//
// The SESSION.* commands need no extra library: sendCommand sends them (every argument as a string), and with RESP3
// maps are returned as objects.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379', RESP: 3 });
client.on('error', (error) => console.error(error));
await client.connect();

const send = (...args) => client.sendCommand(args.map(String));
const key = `session:${randomUUID()}`;

// A session whose system prompt is never evicted.
const created = await send('SESSION.CREATE', key, 'PIN', 'system', 'META', JSON.stringify({ customer: 'Zoë' }));
console.log('created', created.id);

// MSG composes the JSON; the reply is the message's seq.
await send('SESSION.APPEND', key, 'MSG', 'system', 'You help customers of a small shop.');
assert.equal(await send('SESSION.APPEND', key, 'MSG', 'user', 'Where is order 1042?'), 2);

// JSON takes whole messages, here a tool call and its answer, in one atomic step.
const call = { role: 'assistant', content: null, tool_calls: [{ id: 'c1', name: 'get_order', arguments: '{"order":1042}' }] };
const answer = { role: 'tool', tool_call_id: 'c1', content: '{"status":"shipped","arrives":"Friday"}' };
await send('SESSION.APPEND', key, 'JSON', JSON.stringify(call), JSON.stringify(answer));

// A retry with the same token returns the first reply and appends nothing.
const reply = ['SESSION.APPEND', key, 'DEDUP', 'request-7', 'MSG', 'assistant', 'It was shipped and arrives on Friday.'];
assert.equal(await send(...reply), 5);
assert.equal(await send(...reply), 5);
assert.equal(await send('SESSION.LEN', key), 5);

// Like LRANGE: returns the bodies byte for byte.
const stored = await send('SESSION.RANGE', key, 0, -1);
assert.deepEqual(stored.slice(2, 4), [JSON.stringify(call), JSON.stringify(answer)]);

// What to send to the model now: the pinned messages and the newest whole exchanges that fit.
const context = await send('SESSION.CONTEXT', key, 'MAXTOKENS', 110);
for (const message of context.messages.map((body) => JSON.parse(body))) {
  console.log(`  ${message.role.padStart(9)}: ${message.content ?? JSON.stringify(message.tool_calls)}`);
}
console.log(`  (${context.tokens} tokens, ${context.omitted} messages left out)`);

// A window of 3 evicts whole exchanges, the oldest first; EVICTED returns them, for example to summarise them.
const [, evicted] = await send('SESSION.APPEND', key, 'MAXLEN', 3, 'EVICTED', 'MSG', 'user', 'Thank you!');
assert.deepEqual(evicted.map((body) => JSON.parse(body).role), ['user', 'assistant', 'tool']);

// The whole session is one JSON document.
const session = JSON.parse(await send('SESSION.GET', key));
assert.equal(session.session_id, created.id);
assert.deepEqual(session.meta, { customer: 'Zoë' });
console.log(`version ${session.version} with ${session.message_count} messages, expires ${session.expires_at}`);

// It is a key like any other: it has a TTL, which every write slides. EX sets another TTL for this session.
await send('SESSION.META', key, JSON.stringify({ resolved: true }), 'EX', 3600);
const ttl = await client.ttl(key);
assert.ok(ttl > 3590 && ttl <= 3600, `${ttl}`);

// The first word of an error is its code. Here the session has been written since version 1.
await assert.rejects(send('SESSION.APPEND', key, 'IFVERSION', 1, 'MSG', 'user', 'Hello?'), (error) => {
  console.log('refused:', error.message);
  return error.message.startsWith('VERSIONCONFLICT');
});

await client.del(key);
await client.close();
console.log('node redis ok');
