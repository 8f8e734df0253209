"""google-adk: RedisSessionService, since some 2.x a part of it, writes `adk:session:{app}:{user}:{id}`."""

# pip: google-adk==2.13.0 redis==8.1.0

import asyncio

import adk
from google.adk.integrations.redis import RedisSessionService, RedisSessionServiceConfig
from peer import URL, Peer


async def main():
    with Peer("adk", package="google-adk") as peer:
        service = RedisSessionService(RedisSessionServiceConfig(uri=URL, ttl_seconds=900))
        await adk.check(peer, service, lambda session_id: f"adk:session:shop:zoë:{session_id}")


asyncio.run(main())
