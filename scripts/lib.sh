# shellcheck shell=bash disable=SC2034
# (SC2034: variables set here are used by the scripts that source it)
#
# Shared by the other scripts: output, installing missing tools, building the module, starting a server with it.
# To be sourced, not run. Changes to the project's root, whatever the caller's folder was.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' cyan=$'\e[36m' plain=$'\e[0m'
else
  bold='' dim='' green='' red='' cyan='' plain=''
fi

heading() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
say() { printf '  %s\n' "$*"; }
fail() {
  printf '\n%serror:%s %s\n' "$red" "$plain" "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# --- what must be there ---------------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

# bindgen reads the server's module header: it needs the library and, beside it, the compiler's own headers (stddef.h).
have_libclang() {
  [ -z "${LIBCLANG_PATH:-}" ] || return 0
  local file
  for file in /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h \
    /usr/lib64/clang/*/include/stddef.h /Library/Developer/CommandLineTools/usr/lib/clang/*/include/stddef.h \
    /opt/homebrew/opt/llvm/lib/clang/*/include/stddef.h /usr/local/opt/llvm/lib/clang/*/include/stddef.h; do
    [ -e "$file" ] || continue
    case $file in
      /usr/lib/llvm-*) # libclang-common without the library itself is not enough
        compgen -G "${file%%/lib/clang/*}/lib/libclang*.so*" >/dev/null || continue ;;
      /usr/lib/clang/* | /usr/lib64/clang/*)
        compgen -G '/usr/lib*/libclang*.so*' >/dev/null || compgen -G '/usr/lib/*/libclang*.so*' >/dev/null || continue ;;
    esac
    return 0
  done
  return 1
}

# A server named by SERVER_BIN (with arguments, if need be), else whichever is on the PATH.
server_bin() {
  if [ -n "${SERVER_BIN:-}" ]; then
    printf '%s\n' "$SERVER_BIN"
  elif have redis-server; then
    command -v redis-server
  else
    command -v valkey-server
  fi
}

cli_bin() { command -v redis-cli || command -v valkey-cli; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    have sudo || fail "installing packages needs root, and sudo is not there." "As root: $*"
    sudo "$@"
  fi
}

# install_packages NAME... : installs Debian packages; prints their output only after an error.
install_packages() {
  local log
  log=$(mktemp)
  say "installing $* (apt-get$([ "$(id -u)" = 0 ] || printf ', with sudo'))"
  if ! as_root apt-get update -qq >"$log" 2>&1 ||
    ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "apt-get could not install: $*"
  fi
  rm -f "$log"
}

# need_tools: installs what is missing on Debian and its descendants, and says what to install anywhere else.
need_tools() {
  have cargo || fail "Rust is not installed." "https://rustup.rs installs it: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"

  local missing=()
  have cc || missing+=(gcc libc6-dev)
  have_libclang || missing+=(libclang-dev)
  # `server_bin` and `cli_bin` also take Valkey's, so ask them rather than for a name.
  server_bin >/dev/null || missing+=(redis-server)
  cli_bin >/dev/null || missing+=(redis-tools)
  [ ${#missing[@]} -gt 0 ] || return 0

  heading "Installing what is missing"
  if have apt-get; then
    install_packages "${missing[@]}"
    case " ${missing[*]} " in
      *' redis-server '*) say "${dim}(Debian's own redis service may now run on port 6379; nothing here uses it)${plain}" ;;
    esac
  elif have dnf; then
    fail "missing: ${missing[*]} (by their Debian names)." "On Fedora: sudo dnf install gcc clang-devel valkey" "(or redis in place of valkey), then run this again."
  elif [ "$(uname)" = Darwin ]; then
    fail "missing: ${missing[*]} (by their Debian names)." "On macOS: xcode-select --install; brew install redis llvm" \
      "and: export LIBCLANG_PATH=\"\$(brew --prefix llvm)/lib\", then run this again."
  else
    fail "missing: ${missing[*]} (by their Debian names)." "Install a C compiler, libclang with its headers, and Redis 7.0 or later (or Valkey), then run this again."
  fi
}

# PostgreSQL's own programs; Debian keeps them out of the PATH.
have_postgres() {
  { have initdb && have postgres && have pg_ctl; } || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# OpenSSL's headers, which the client crate is built with for TLS when every feature is on.
have_openssl() {
  [ "$(uname)" != Linux ] || [ -n "${OPENSSL_DIR:-}" ] || { have pkg-config && pkg-config --exists openssl; }
}

# need_test_tools: installs what only the tests need: PostgreSQL for those of the sink, OpenSSL for the client crate with every feature.
need_test_tools() {
  local missing=()
  have_openssl || missing+=(libssl-dev pkg-config)
  have_postgres || missing+=(postgresql)
  [ ${#missing[@]} -gt 0 ] || return 0

  heading "Installing what the tests need"
  if have apt-get; then
    # Each test starts a PostgreSQL of its own. Debian's package would also start one for the whole machine, unless told not to
    # while it is installed.
    local folder=/etc/postgresql-common/createcluster.d file
    file=$folder/redis-session-tests.conf
    as_root mkdir -p "$folder"
    printf 'create_main_cluster = false\n' | as_root tee "$file" >/dev/null
    if ! (install_packages "${missing[@]}"); then
      as_root rm -f "$file"
      exit 1
    fi
    as_root rm -f "$file"
  elif have dnf; then
    fail "missing: ${missing[*]} (by their Debian names)." "On Fedora: sudo dnf install openssl-devel pkgconf postgresql-server, then run this again."
  elif [ "$(uname)" = Darwin ]; then
    fail "missing: ${missing[*]} (by their Debian names)." "On macOS: brew install postgresql, then run this again."
  else
    fail "missing: ${missing[*]} (by their Debian names)." "Install OpenSSL's headers, pkg-config and PostgreSQL (initdb, postgres, pg_ctl and psql), then run this again."
  fi
}

# --- the module -----------------------------------------------------------------------------------------------------

# build_module: builds the module and sets MODULE_PATH to the library (the target folder may be anywhere).
build_module() {
  local lines
  lines=$(cargo build -p redis-session --release --message-format=json-render-diagnostics) || fail "the module did not build."
  MODULE_PATH=$(printf '%s\n' "$lines" | sed -nE 's/.*"([^"]*libredis_session\.(so|dylib))".*/\1/p' | tail -n 1)
  [ -f "$MODULE_PATH" ] || fail "the build made no libredis_session.so."
}

# --- a server of our own --------------------------------------------------------------------------------------------

server_pid='' server_dir=''

stop_server() {
  if [ -n "$server_pid" ]; then
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=''
  fi
  if [ -n "$server_dir" ]; then
    rm -rf "$server_dir"
    server_dir=''
  fi
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
  local try port
  for try in {1..50}; do
    port=$((20000 + (RANDOM + try) % 10000))
    if port_is_free "$port"; then
      printf '%s\n' "$port"
      return
    fi
  done
  return 1
}

# start_server: with the project's redis.conf and the module, on PORT (default: a free one), data in a temporary folder.
# Sets PORT, CLI (redis-cli with its port) and server_version. Call build_module first.
start_server() {
  if [ -n "${PORT:-}" ]; then
    port_is_free "$PORT" || fail "port $PORT is in use." "Choose another: PORT=7777 $0"
  else
    PORT=$(free_port) || fail "found no free port between 20000 and 29999."
  fi
  server_dir=$(mktemp -d)
  trap stop_server EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  local server
  read -ra server <<<"$(server_bin)"
  "${server[@]}" "$PWD/redis.conf" --loadmodule "$MODULE_PATH" --bind 127.0.0.1 --port "$PORT" --dir "$server_dir" \
    --daemonize no --logfile "$server_dir/server.log" >"$server_dir/stdout" 2>&1 &
  server_pid=$!
  CLI=("$(cli_bin)" -h 127.0.0.1 -p "$PORT")

  local tries=0
  until [ "$("${CLI[@]}" PING 2>/dev/null || true)" = PONG ]; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ] || ! kill -0 "$server_pid" 2>/dev/null; then
      cat "$server_dir/stdout" "$server_dir/server.log" >&2 2>/dev/null || true
      fail "the server did not start; its log is above."
    fi
    sleep 0.1
  done
  # Valkey reports a redis_version of its own for old clients; its true one comes first.
  server_version=$("${CLI[@]}" INFO server | tr -d '\r' |
    awk -F: '/^valkey_version:/ {v = "Valkey " $2} /^redis_version:/ {r = "Redis " $2} END {print v ? v : r}')
}
