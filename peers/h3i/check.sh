#!/usr/bin/env bash
# Sends incorrect HTTP/3 input from h3i to our servers: check.sh. The first is the performance server; the second is the
# example `axum`, if it is built, because it reads the content of requests. Release builds are preferred to debug builds.
set -eu
here=$(dirname "$(readlink -f "$0")")
h3i=$here/../quiche/target/release/peer-h3i

built() {
    for profile in release debug; do
        if [ -x "$here/../../target/$profile/$1" ]; then
            echo "$here/../../target/$profile/$1"
            return
        fi
    done
}

# check FLAG… -- SERVER ARGUMENT…: runs the cases of the flags with a server that prints `listening IP:PORT`.
check() {
    local flags=() word address pid result=0
    while [ "$1" != -- ]; do flags+=("$1") && shift; done
    shift
    # Without a certificate option, servers create a certificate.
    coproc SERVER { exec "$@"; }
    pid=$SERVER_PID
    if read -r -t 10 word address <&"${SERVER[0]}" && [ "$word" = listening ]; then
        "$h3i" --connect "$address" ${flags+"${flags[@]}"} || result=$?
    else
        result=1
    fi
    # The server must still be running, and must exit without an error: the first at the end of its stdin, the example on SIGINT.
    kill -INT "$pid" || result=1
    exec {SERVER[1]}>&-
    wait "$pid" || result=$?
    return "$result"
}

status=0
check -- "${ANABRANCH:-$(built anabranch)}" perf server --listen 127.0.0.1:0 || status=1
echo_server=$(built examples/axum)
if [ -n "$echo_server" ]; then
    check --echo -- "$echo_server" 127.0.0.1:0 || status=1
else
    echo "skipped: --echo needs cargo build --package anabranch --example axum"
fi
exit "$status"
