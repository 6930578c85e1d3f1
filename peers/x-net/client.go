package main

import (
	"context"
	"crypto/tls"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"golang.org/x/net/quic"
	"golang.org/x/sync/errgroup"
)

// ticketWait is how long a client waits for a session ticket.
const ticketWait = 5 * time.Second

// farewellWait is how long a client waits for the server to acknowledge the connection's end.
const farewellWait = time.Second

// caller knows where to connect.
type caller struct {
	*clientOptions
	endpoint *quic.Endpoint
	config   *quic.Config
}

// run does what the options ask for and prints what was observed.
func (o *clientOptions) run() error {
	c := &caller{clientOptions: o, config: o.config()}
	// A client accepts no streams; perf and hq-interop have none that begin at the server.
	c.config.MaxBidiRemoteStreams, c.config.MaxUniRemoteStreams = -1, -1
	var err error
	if c.config.TLSConfig, err = o.tlsConfig(); err != nil {
		return err
	}
	if c.endpoint, err = quic.Listen("udp", ":0", nil); err != nil {
		return err
	}
	defer c.leave()
	switch {
	case o.handshakes > 0:
		return c.fullHandshakes()
	case o.testCase == "resumption":
		return c.twice()
	case o.testCase == "chacha20":
		onlyChaCha20()
	}
	return c.once()
}

// leave closes the endpoint.
func (c *caller) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellWait)
	defer cancel()
	_ = c.endpoint.Close(ctx)
}

func (c *caller) connect(ctx context.Context) (*quic.Conn, error) {
	return c.endpoint.Dial(ctx, "udp", c.clientOptions.connect.String(), c.config)
}

// closed ends a connection as an application does that has all it wants.
func closed(conn *quic.Conn) { conn.Abort(&quic.ConnectionCloseError{}) }

// observed starts the report of a case.
func (c *caller) observed(moved uint64, elapsed time.Duration) report {
	return report{
		"case":         c.testCase,
		"version":      "0x00000001",
		"bytes":        moved,
		"seconds":      elapsed.Seconds(),
		"goodput_mbps": float64(moved) * 8 / max(elapsed.Seconds(), 1e-9) / 1e6,
	}
}

// once does the work on one connection.
func (c *caller) once() error {
	ctx := context.Background()
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	moved, err := c.work(ctx, conn, c.paths)
	if err != nil {
		return err
	}
	r := c.observed(moved, time.Since(start))
	switch c.testCase {
	case "chacha20":
		suite := conn.ConnectionState().CipherSuite
		r["cipher_suite"] = tls.CipherSuiteName(suite)
		if suite != tls.TLS_CHACHA20_POLY1305_SHA256 {
			err = errors.New("another suite was chosen")
		}
	case "keyupdate":
		// The connection stops using its state before it is looked at.
		closed(conn)
		_ = conn.Wait(ctx)
		updates := keyUpdates(conn)
		r["key_updates"] = updates
		if updates == 0 {
			err = errors.New("no key update was finished")
		}
	}
	r.print()
	closed(conn)
	return err
}

// keyUpdates returns how many updates of keys the server has acknowledged: one if the key phase has changed. The
// stack begins the first one after 100 packets by itself, and its interface and its log have no word for it. A field
// that is not there is no update.
func keyUpdates(conn *quic.Conn) int {
	keys := reflect.ValueOf(conn).Elem().FieldByName("keysAppData")
	if !keys.IsValid() {
		return 0
	}
	phase := keys.FieldByName("phase")
	if !phase.IsValid() || phase.Uint() == 0 {
		return 0
	}
	return 1
}

// twice does the work on two connections; the second uses what the first one was given.
func (c *caller) twice() error {
	ctx := context.Background()
	sessions := newTickets()
	c.config.TLSConfig.ClientSessionCache = sessions
	// The first path on one connection and the others on the next; other work, or a single path, on both.
	first, second := c.paths, c.paths
	if len(c.paths) > 1 {
		first, second = c.paths[:1], c.paths[1:]
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := c.work(ctx, conn, first); err != nil {
		return err
	}
	select {
	case <-sessions.arrived:
	case <-time.After(ticketWait):
		return errors.New("no session ticket arrived")
	}
	closed(conn)

	if conn, err = c.connect(ctx); err != nil {
		return err
	}
	start := time.Now()
	moved, err := c.work(ctx, conn, second)
	if err != nil {
		return err
	}
	r := c.observed(moved, time.Since(start))
	resumed := conn.ConnectionState().DidResume
	r["resumed"] = resumed
	r.print()
	closed(conn)
	if !resumed {
		return errors.New("the second handshake was a full one")
	}
	return nil
}

// fullHandshakes makes connections and closes them, in some lanes at once.
func (c *caller) fullHandshakes() error {
	var left atomic.Int64
	left.Store(c.handshakes)
	group, ctx := errgroup.WithContext(context.Background())
	start := time.Now()
	for range c.concurrency {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				conn, err := c.connect(ctx)
				if err != nil {
					return err
				}
				closed(conn)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	report{"handshakes": c.handshakes, "seconds": time.Since(start).Seconds()}.print()
	return nil
}
