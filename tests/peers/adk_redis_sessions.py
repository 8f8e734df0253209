"""google-adk-redis: RedisMemorySessionService writes a session with its app and user in the key."""

# pip: google-adk==2.13.0 google-adk-redis==0.1.5 redis==8.1.0

import asyncio

import adk
from google_adk_redis import RedisMemorySessionService
from peer import URL, Peer


async def main():
    with Peer("adk-redis", package="google-adk-redis") as peer:
        await adk.check(peer, RedisMemorySessionService(uri=URL, expire=900), lambda session_id: f"session:shop:zoë:{session_id}")


asyncio.run(main())
