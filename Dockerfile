# Redis with the redis-session module.
#
#   docker build -t redis-session .
#   docker run --rm -p 6379:6379 redis-session

FROM rust:1-bookworm AS build
# bindgen reads the server's module header with it.
RUN apt-get update \
 && apt-get install -y --no-install-recommends libclang-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN cargo build -p redis-session --release --locked

FROM redis:7-bookworm
COPY --from=build /build/target/release/libredis_session.so /usr/lib/redis/modules/
COPY redis.conf /etc/redis/redis.conf
# Data goes to /data, the image's volume and working folder.
CMD ["redis-server", "/etc/redis/redis.conf", "--loadmodule", "/usr/lib/redis/modules/libredis_session.so"]
