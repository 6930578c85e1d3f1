/* A guest in C: no QUIC but the smallest protocol that finishes a download over a lossy path. The client repeats
 * its request until data comes and acknowledges how much it has in order; the server keeps WINDOW segments on
 * their way and goes back to the last acknowledged byte when nothing was acknowledged for TIMEOUT.
 *
 *     cc -std=c99 -O2 -o guest-example crates/guest/c/example.c
 *
 * A segment is 8 bytes of offset and SEGMENT of data; a request or acknowledgment is 8 bytes. */
#include "anabranch_guest.h"

enum { SEGMENT = 1400, WINDOW = 32 };
static const uint64_t TIMEOUT = 400000000;

static struct ag_hello hello;
static uint64_t timer = AG_NONE;

static void put(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* The client: `received` bytes have come in order. */
static void client(struct ag_step *step, struct ag_progress *progress) {
    struct ag_datagram datagram;
    int say = step->number == 0 || timer <= step->now;
    while (ag_datagram(step, &datagram)) {
        if (datagram.len < 8) continue;
        if (get(datagram.payload) == progress->delivered) progress->delivered += datagram.len - 8;
        progress->connected = 1;
        say = 1;
    }
    progress->done = progress->delivered == hello.download;
    if (say) {
        uint8_t received[8];
        put(received, progress->delivered);
        ag_send(&hello.path[0], 0, received, sizeof received);
        timer = progress->done ? AG_NONE : step->now + TIMEOUT;
    }
}

/* The server: bytes before `acked` have arrived, those before `sent` are on their way, those before `most` were. */
static void server(struct ag_step *step, struct ag_progress *progress) {
    static uint64_t acked, sent, most;
    static int asked;
    struct ag_datagram datagram;
    while (ag_datagram(step, &datagram)) {
        if (datagram.len != 8) continue;
        uint64_t received = get(datagram.payload);
        asked = 1;
        if (received > acked && received <= most) {
            acked = received;
            if (sent < acked) sent = acked;
            timer = AG_NONE;
        }
    }
    if (timer <= step->now) sent = acked;
    while (asked && sent < hello.download && sent < acked + WINDOW * SEGMENT) {
        uint8_t segment[8 + SEGMENT] = {0};
        uint64_t left = hello.download - sent;
        size_t len = left < SEGMENT ? (size_t)left : SEGMENT;
        put(segment, sent);
        ag_send(&hello.path[0], 0, segment, 8 + len);
        if (sent < most) progress->repeated += len;
        sent += len;
        if (most < sent) most = sent;
        if (timer <= step->now || timer == AG_NONE) timer = step->now + TIMEOUT;
    }
    if (acked == hello.download)
        timer = AG_NONE;
    else if (acked < sent && timer == AG_NONE)
        timer = step->now + TIMEOUT; /* nothing new was left to send */
}

int main(void) {
    struct ag_step step;
    struct ag_progress progress = {.deadline = AG_NONE, .lost = AG_NONE};
    if (ag_start(&hello, "example in C")) return fputs("not the guest protocol\n", stderr), 1;
    while (ag_next(&step) == 0) {
        if (hello.server)
            server(&step, &progress);
        else
            client(&step, &progress);
        progress.deadline = timer;
        if (ag_answer(&step, &progress)) return 1;
    }
    return 0;
}
