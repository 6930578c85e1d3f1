#!/usr/bin/env bash
# Runs every case of the contract between two built peers: check.sh CLIENT [SERVER] [CASE…]
# Prints one line per case: ok, unsupported or FAILED, and the client's report. Fails if any case failed.
# With WIRE=reverso both use QUIC VReverso, which only the peer quiceh supports.
set -u
cd "$(dirname "$0")"
client=${1:?usage: check.sh CLIENT [SERVER] [CASE…]}
server=${2:-$client}
shift $(($# > 1 ? 2 : 1))
over_http3="http3-handshake http3 http3-multiplexing http3-resumption http3-zerortt http3-keyupdate http3-chacha20 \
    http3-v2 http3-rebind http3-migration http3-versionnegotiation http3-ecn http3-retry"
case $client:$server in
    *ngtcp2*) all=$over_http3 ;;
    *noq*) all="handshake transfer upload streams multiplexing resumption zerortt keyupdate chacha20 rebind migration \
        datagram versionnegotiation ecn retry handshakes" ;;
    *) all="handshake transfer upload streams multiplexing resumption zerortt keyupdate chacha20 v2 rebind migration \
        datagram versionnegotiation ecn retry handshakes $over_http3 http3-bytes requests" ;;
esac
cases=${*:-$all}

binary() {
    case $1 in
        quic-go | aioquic | ngtcp2 | x-net | qh3 | curl-cffi) echo "$1/peer-$1" ;;
        *) echo "$1/target/release/peer-$1" ;;
    esac
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1 -addext basicConstraints=critical,CA:FALSE \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl.log" || { cat "$work/openssl.log"; exit 1; }
mkdir "$work/www" "$work/out"
mkfifo "$work/stdin"
# The interop runner's multiplexing case: 1,999 files of 32 bytes.
head -c $((1999 * 32)) /dev/urandom | split -b 32 -a 4 -d - "$work/www/small"
head -c 3000000 /dev/urandom >"$work/www/large"
big=${BIG:-20000000}

failures=0
for case in $cases; do
    flags=() client_flags=(--case "$case") expect=() wire=(${WIRE+--wire "$WIRE"})
    case $case in
        handshake) client_flags+=(--download 0) ;;
        upload) client_flags=(--upload $big) ;;
        streams) client_flags=(--download $big --upload $big --streams 7) ;;
        transfer) client_flags+=(--out "$work/out" /large /small0001); expect=(large small0001) ;;
        multiplexing)
            client_flags+=(--out "$work/out")
            for i in $(seq -f %04g 0 1998); do client_flags+=("/small$i") expect+=("small$i"); done ;;
        resumption | zerortt) client_flags+=(--out "$work/out" /small0001 /small0002 /small0003); expect=(small0001 small0002 small0003) ;;
        v2) flags+=(--v2); client_flags+=(--v2 --download 1000000) ;;
        retry) flags+=(--retry); client_flags=(--download 1000000) ;;
        handshakes) client_flags=(--handshakes 200 --concurrency 4) ;;
        http3) client_flags=(--http3 --out "$work/out" /large /small0001); expect=(large small0001) ;;
        http3-multiplexing)
            client_flags=(--case multiplexing --http3 --out "$work/out")
            for i in $(seq -f %04g 0 1998); do client_flags+=("/small$i") expect+=("small$i"); done ;;
        http3-resumption | http3-zerortt)
            client_flags=(--case "${case#http3-}" --http3 --out "$work/out" /small0001 /small0002 /small0003)
            expect=(small0001 small0002 small0003) ;;
        http3-bytes) client_flags=(--http3 /bytes/$big) ;;
        http3-v2) flags+=(--v2); client_flags=(--v2 --http3 --out "$work/out" /large); expect=(large) ;;
        http3-retry) flags+=(--retry); client_flags=(--http3 --out "$work/out" /large); expect=(large) ;;
        # Some clients stop at the Version Negotiation packet, so no file is expected.
        http3-versionnegotiation) client_flags=(--case versionnegotiation --http3 --out "$work/out" /large) ;;
        http3-*) client_flags=(--case "${case#http3-}" --http3 --out "$work/out" /large); expect=(large) ;;
        requests) client_flags=(--http3 --requests 10000 --concurrency 100 --connections 2 /bytes/100) ;;
        datagram) ;;
        *) client_flags+=(--download $big) ;;
    esac
    rm -f "$work"/out/* "$work"/{server,client}.{out,log} && touch "$work/client.log"
    exec 6<>"$work/stdin" # the server's stdin: its end is the server's end
    "$(binary "$server")" server --listen 127.0.0.1:0 --cert "$work/cert.pem" --key "$work/key.pem" --root "$work/www" \
        ${flags+"${flags[@]}"} ${wire+"${wire[@]}"} <"$work/stdin" >"$work/server.out" 2>"$work/server.log" 6>&- &
    peer=$!
    until grep -qs ^listening "$work/server.out" || ! kill -0 "$peer" 2>/dev/null; do sleep 0.02; done
    address=$(sed -n 's/^listening //p' "$work/server.out")
    observed="" status=127
    if [ -n "$address" ]; then
        observed=$(timeout 60 "$(binary "$client")" client --connect "$address" --ca "$work/cert.pem" \
            "${client_flags[@]}" ${wire+"${wire[@]}"} 2>"$work/client.log" 6>&-)
        status=$?
    fi
    exec 6>&-
    wait "$peer"
    server_status=$?
    if [ "$case" = requests ] && [ "$status" = 0 ]; then
        grep -q '"requests": *10000' <<<"$observed" || status="0, but did not count its requests"
    fi
    for file in ${expect+"${expect[@]}"}; do
        cmp -s "$work/www/$file" "$work/out/$file" || { [ $status = 0 ] && status="0, but $file differs"; }
    done
    if [ "$status" = 0 ] && [ $server_status = 0 ]; then
        verdict=ok
    elif [ "$status" = 127 ] || [ $server_status = 127 ]; then
        verdict=unsupported
    else
        verdict="FAILED (client $status, server $server_status)" failures=$((failures + 1))
    fi
    echo "$case: $verdict $observed $(cat "$work/client.log" "$work/server.log" | tail -n 1)"
done
exit $((failures > 0))
