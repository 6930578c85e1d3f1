/* The guest protocol, version 1, in C99: see docs/guest-protocol.md. Everything is static; one file of a guest
 * includes it. Functions give 0 if all is well and -1 if the stream has ended or is not the protocol. */
#ifndef ANABRANCH_GUEST_H
#define ANABRANCH_GUEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AG_VERSION = 1,
    AG_MAX_MESSAGE = 8 << 20,
    AG_MAX_DATAGRAMS = 4096,
    AG_MAX_PAYLOAD = 65507,
    AG_MAX_PATHS = 8,
    AG_MAX_TEXT = 1024,
    AG_MAX_CREDENTIAL = 16384
};
#define AG_NONE UINT64_MAX

struct ag_address { uint8_t family, ip[16]; uint16_t port; };       /* family 4 or 6 */
struct ag_path { struct ag_address local, remote; };
struct ag_bytes { const uint8_t *data; size_t len; };               /* valid until the next message is read */
struct ag_hello {
    int server;
    uint64_t seed, download;                                        /* bytes of the download */
    size_t paths;
    struct ag_path path[AG_MAX_PATHS];
    struct ag_bytes server_name, alpn, certificate, key;
};
struct ag_datagram { struct ag_path path; uint8_t ecn; const uint8_t *payload; size_t len; };
struct ag_step { uint64_t number, now; size_t datagrams, at; };
struct ag_progress { uint64_t deadline, delivered, repeated, lost; int connected, done; const char *failure; };

static uint8_t *ag_in, *ag_out;                                     /* one message each */
static size_t ag_in_len, ag_out_len;
static unsigned ag_sent;

static int ag_number(size_t *at, size_t bytes, uint64_t *value) {
    if (bytes > ag_in_len - *at) return -1;
    *value = 0;
    for (size_t i = 0; i < bytes; i++) *value |= (uint64_t)ag_in[*at + i] << 8 * i;
    *at += bytes;
    return 0;
}

static int ag_list(size_t *at, size_t most, struct ag_bytes *bytes) {
    uint64_t len;
    if (ag_number(at, 2, &len) || len > most || len > ag_in_len - *at) return -1;
    bytes->data = ag_in + *at;
    bytes->len = (size_t)len;
    *at += len;
    return 0;
}

static int ag_read_address(size_t *at, struct ag_address *address) {
    uint64_t family, port;
    memset(address, 0, sizeof *address);
    if (ag_number(at, 1, &family) || (family != 4 && family != 6)) return -1;
    size_t len = family == 4 ? 4 : 16;
    if (len > ag_in_len - *at) return -1;
    address->family = (uint8_t)family;
    memcpy(address->ip, ag_in + *at, len);
    *at += len;
    if (ag_number(at, 2, &port)) return -1;
    address->port = (uint16_t)port;
    return 0;
}

static int ag_read_path(size_t *at, struct ag_path *path) {
    return ag_read_address(at, &path->local) || ag_read_address(at, &path->remote) ? -1 : 0;
}

static int ag_read(void) {
    uint8_t len[4];
    if (!ag_in && (!(ag_in = malloc(AG_MAX_MESSAGE)) || !(ag_out = malloc(AG_MAX_MESSAGE)))) return -1;
    if (fread(len, 1, 4, stdin) != 4) return -1;
    ag_in_len = len[0] | len[1] << 8 | (size_t)len[2] << 16 | (size_t)len[3] << 24;
    return ag_in_len <= AG_MAX_MESSAGE && fread(ag_in, 1, ag_in_len, stdin) == ag_in_len ? 0 : -1;
}

static void ag_put(uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ag_out[ag_out_len++] = (uint8_t)(value >> 8 * i);
}

static void ag_put_bytes(const void *data, size_t len) {
    memcpy(ag_out + ag_out_len, data, len);
    ag_out_len += len;
}

static void ag_put_text(const char *text) {
    size_t len = text ? strlen(text) : 0;
    if (len > AG_MAX_TEXT) len = AG_MAX_TEXT;
    ag_put(len, 2);
    ag_put_bytes(text ? text : "", len);
}

static void ag_put_address(const struct ag_address *address) {
    ag_put(address->family, 1);
    ag_put_bytes(address->ip, address->family == 4 ? 4 : 16);
    ag_put(address->port, 2);
}

/* Sends what is in the buffer as one message, `head` first, which may be empty. */
static int ag_flush(const uint8_t *head, size_t head_len) {
    uint8_t len[4];
    for (size_t i = 0; i < 4; i++) len[i] = (uint8_t)((head_len + ag_out_len) >> 8 * i);
    int good = fwrite(len, 1, 4, stdout) == 4 && fwrite(head, 1, head_len, stdout) == head_len &&
               fwrite(ag_out, 1, ag_out_len, stdout) == ag_out_len && fflush(stdout) == 0;
    ag_out_len = 0;
    return good ? 0 : -1;
}

/* Reads the hello and answers it; `name` is the stack's, with its version. */
static int ag_start(struct ag_hello *hello, const char *name) {
    size_t at = 0;
    uint64_t kind, version, role, paths, workload;
    if (ag_read() || ag_number(&at, 1, &kind) || kind != 1 || ag_number(&at, 2, &version) ||
        version != AG_VERSION || ag_number(&at, 1, &role) || ag_number(&at, 8, &hello->seed) ||
        ag_number(&at, 1, &paths) || paths < 1 || paths > AG_MAX_PATHS)
        return -1;
    hello->server = role == 1;
    hello->paths = (size_t)paths;
    for (size_t i = 0; i < paths; i++)
        if (ag_read_path(&at, &hello->path[i])) return -1;
    if (ag_number(&at, 1, &workload) || workload != 1 || ag_number(&at, 8, &hello->download) ||
        ag_list(&at, AG_MAX_TEXT, &hello->server_name) || ag_list(&at, AG_MAX_TEXT, &hello->alpn) ||
        ag_list(&at, AG_MAX_CREDENTIAL, &hello->certificate) || ag_list(&at, AG_MAX_CREDENTIAL, &hello->key))
        return -1;
    ag_put(2, 1);
    ag_put(AG_VERSION, 2);
    ag_put_text(name);
    return ag_flush(NULL, 0);
}

/* Waits for the next step. */
static int ag_next(struct ag_step *step) {
    uint64_t kind, datagrams;
    size_t at = 0;
    if (ag_read() || ag_number(&at, 1, &kind) || kind != 3 || ag_number(&at, 8, &step->number) ||
        ag_number(&at, 8, &step->now) || ag_number(&at, 2, &datagrams) || datagrams > AG_MAX_DATAGRAMS)
        return -1;
    step->datagrams = (size_t)datagrams;
    step->at = at;
    ag_sent = 0;
    ag_out_len = 0;
    return 0;
}

/* Takes the next datagram of the step: 1 if there was one, 0 if not. */
static int ag_datagram(struct ag_step *step, struct ag_datagram *datagram) {
    uint64_t ecn;
    struct ag_bytes payload;
    if (step->datagrams == 0) return 0;
    step->datagrams--;
    if (ag_read_path(&step->at, &datagram->path) || ag_number(&step->at, 1, &ecn) ||
        ag_list(&step->at, AG_MAX_PAYLOAD, &payload))
        return 0;
    datagram->ecn = (uint8_t)ecn;
    datagram->payload = payload.data;
    datagram->len = payload.len;
    return 1;
}

/* Sends a datagram with the answer: -1 if it may hold no more. Then the deadline is now, and the next step goes on. */
static int ag_send(const struct ag_path *path, uint8_t ecn, const void *payload, size_t len) {
    if (ag_sent == AG_MAX_DATAGRAMS || len > AG_MAX_PAYLOAD || ag_out_len + len + 4096 > AG_MAX_MESSAGE) return -1;
    ag_put_address(&path->local);
    ag_put_address(&path->remote);
    ag_put(ecn & 3, 1);
    ag_put(len, 2);
    ag_put_bytes(payload, len);
    ag_sent++;
    return 0;
}

/* Answers the step. */
static int ag_answer(const struct ag_step *step, const struct ag_progress *progress) {
    static uint8_t head[64 + AG_MAX_TEXT];
    uint8_t *datagrams = ag_out;
    size_t len = ag_out_len;
    ag_out = head;
    ag_out_len = 0;
    ag_put(4, 1);
    ag_put(step->number, 8);
    ag_put((progress->connected ? 1 : 0) | (progress->done ? 2 : 0) | (progress->failure ? 4 : 0), 1);
    ag_put(progress->deadline, 8);
    ag_put(progress->delivered, 8);
    ag_put(progress->repeated, 8);
    ag_put(progress->lost, 8);
    ag_put_text(progress->failure);
    ag_put(ag_sent, 2);
    size_t head_len = ag_out_len;
    ag_out = datagrams;
    ag_out_len = len;
    return ag_flush(head, head_len);
}

#endif
