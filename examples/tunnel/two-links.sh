#!/bin/sh
# A tunnel over two links on one host, without root: curl fetches a file through SOCKS5 while one of the links dies.
#
#   examples/tunnel/two-links.sh [MEGABYTES]      (100 by default)
#
# ANABRANCH names the program; without it, it is built. LINK describes both links (RATE/RTT[/LOSS], 80mbit/20ms by default).
set -eu

megabytes=${1:-100}
link=${LINK:-80mbit/20ms}
cd "$(dirname "$0")/../.."
if [ -z "${ANABRANCH:-}" ]; then
    cargo build --release
    ANABRANCH=$PWD/target/release/anabranch
fi
work=$(mktemp -d)
started=
# Ends what was started here, and nothing else.
cleanup() {
    for process in $started; do kill "$process" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# Starts the program in the background: NAME ARGUMENTS…
start() {
    name=$1
    shift
    "$ANABRANCH" "$@" >"$work/$name" 2>"$work/$name.log" &
    last=$!
    started="$started $last"
}
# Prints the rest of the first line of NAME's output that begins with PREFIX.
said() {
    for _ in $(seq 200); do
        line=$(sed -n "s/^$2 //p" "$work/$1" | head -n 1)
        if [ -n "$line" ]; then
            echo "$line"
            return
        fi
        sleep 0.05
    done
    echo "$1 did not start: $(cat "$work/$1.log")" >&2
    exit 1
}

# The target: a file on a web server.
mkdir "$work/site"
head -c "${megabytes}000000" /dev/urandom >"$work/site/file"
start target serve "$work/site" --listen 127.0.0.1:0 --log none
target=$(said target listening)

# The proxy, behind two links. It announces the second link's address, as a proxy with two providers would.
port=$(( 20000 + $$ % 20000 ))
start first relay "$link" "127.0.0.1:$port"
first=$last
start second relay "$link" "127.0.0.1:$port"
other=$(said second listening)
echo "tea-$$" >"$work/secret"
hash=$("$ANABRANCH" proxy hash <"$work/secret")
printf '[[user]]\nname = "alice"\nsecret = "%s"\n' "$hash" >"$work/users.toml"
printf 'alice.' | cat - "$work/secret" >"$work/token"
start proxy proxy serve --listen "0.0.0.0:$port" --write-cert "$work/cert.pem" --users "$work/users.toml" \
    --allow 127.0.0.0/8 --announce "$other" --log none
said proxy listening >/dev/null

# The client, which knows the first link.
entry=$(said first listening)
start client proxy connect "https://localhost:${entry##*:}" --ca "$work/cert.pem" --token-file "$work/token" --path lo \
    --socks 127.0.0.1:0
socks=$(said client "listening socks")

echo "$megabytes MB through $socks over two links of $link; the first one dies on the way"
begin=$(date +%s.%N)
curl --silent --show-error --insecure --proxy "socks5h://$socks" --output "$work/got" "https://$target/file" &
curl=$!
# The link dies when a third has arrived.
while kill -0 "$curl" 2>/dev/null && [ "$(stat -c %s "$work/got" 2>/dev/null || echo 0)" -lt "$(( megabytes * 333333 ))" ]; do
    sleep 0.05
done
kill "$first"
dead=$(date +%s.%N)
wait "$curl"
end=$(date +%s.%N)

expected=$(sha256sum <"$work/site/file")
got=$(sha256sum <"$work/got")
echo "$begin $dead $end $megabytes" | awk '{
    printf "first third by two links: %.1f Mbit/s, the rest by one: %.1f Mbit/s, %.1f s in all\n",
        $4 * 8 / 3 / ($2 - $1), $4 * 16 / 3 / ($3 - $2), $3 - $1 }'
echo "sent     ${expected%% *}"
echo "received ${got%% *}"
[ "$expected" = "$got" ] && echo "the same SHA-256, with one link dead"
