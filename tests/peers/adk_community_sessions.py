"""google-adk-community: RedisSessionService writes `session:{id}`."""

# pip: google-adk==2.13.0 google-adk-community==0.5.0

import asyncio

import adk
from google.adk_community.sessions.redis_session_service import RedisSessionService
from peer import URL, Peer


async def main():
    with Peer("adk-community", package="google-adk-community") as peer:
        await adk.check(peer, RedisSessionService(uri=URL, expire=900), lambda session_id: f"session:{session_id}")


asyncio.run(main())
