package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"
)

// Waits of a client: for the last echoed datagram, for a session ticket, and for the validation of a path.
const (
	echoWait   = 2 * time.Second
	ticketWait = 5 * time.Second
	probeWait  = 5 * time.Second
)

// keepAlive is how soon a client on a silent connection sends something.
const keepAlive = 500 * time.Millisecond

// caller knows where to connect and keeps what it saw.
type caller struct {
	*clientOptions
	transport *quic.Transport
	tls       *tls.Config
	config    *quic.Config
	seen      observer
}

// run does what the options ask for and prints what was observed.
func (o *clientOptions) run() error {
	c := &caller{clientOptions: o, config: o.config()}
	var err error
	if c.tls, err = o.tlsConfig(); err != nil {
		return err
	}
	var socket net.PacketConn
	if o.testCase == "rebind" {
		socket, err = newSwappable()
	} else {
		socket, err = net.ListenUDP("udp", nil)
	}
	if err != nil {
		return err
	}
	c.transport = &quic.Transport{Conn: socket}
	defer c.transport.Close()
	if o.handshakes > 0 {
		return c.fullHandshakes()
	}
	if o.requests > 0 {
		return c.manyRequests()
	}
	switch o.testCase {
	case "v2":
		c.config.Versions = []quic.Version{quic.Version2}
	case "versionnegotiation":
		c.config.Versions = []quic.Version{quic.Version2, quic.Version1}
	case "chacha20":
		onlyChaCha20()
	case "rebind":
		// A client that only receives, and has acknowledged everything, would never show its new address.
		c.config.KeepAlivePeriod = keepAlive
	case "resumption", "zerortt":
		return c.twice()
	}
	// Events cost time, so plain transfers do without.
	if o.testCase != "transfer" {
		c.config.Tracer = c.seen.tracer
	}
	return c.once()
}

func (c *caller) connect(ctx context.Context, early bool) (*quic.Conn, error) {
	server := net.UDPAddrFromAddrPort(c.clientOptions.connect)
	if early {
		return c.transport.DialEarly(ctx, server, c.tls, c.config)
	}
	return c.transport.Dial(ctx, server, c.tls, c.config)
}

// observed starts the report of a case.
func (c *caller) observed(conn *quic.Conn, p *progress, elapsed time.Duration) report {
	state := conn.ConnectionState()
	moved := p.moved.Load()
	return report{
		"case":         c.testCase,
		"version":      fmt.Sprintf("0x%08x", uint32(state.Version)),
		"bytes":        moved,
		"seconds":      elapsed.Seconds(),
		"goodput_mbps": float64(moved) * 8 / max(elapsed.Seconds(), 1e-9) / 1e6,
		"gso":          state.GSO,
	}
}

// once does the work on one connection, with something in the middle for some cases.
func (c *caller) once() error {
	ctx := context.Background()
	conn, err := c.connect(ctx, false)
	if err != nil {
		return err
	}
	if c.datagrams > 0 {
		return c.echo(conn)
	}
	acted := make(chan error, 1)
	p := newProgress(c.clientOptions, func() {
		switch c.testCase {
		case "rebind":
			acted <- c.transport.Conn.(*swappable).swap()
		case "migration":
			acted <- c.migrate(conn)
		}
	})
	start := time.Now()
	if err := c.work(ctx, conn, c.paths, p); err != nil {
		return err
	}
	r := c.observed(conn, p, time.Since(start))
	err = c.judge(conn, r, acted)
	r.print()
	return errors.Join(err, conn.CloseWithError(0, ""))
}

// judge completes the report and says whether the case worked.
func (c *caller) judge(conn *quic.Conn, r report, acted <-chan error) error {
	switch c.testCase {
	case "chacha20":
		suite := conn.ConnectionState().TLS.CipherSuite
		r["cipher_suite"] = tls.CipherSuiteName(suite)
		if suite != tls.TLS_CHACHA20_POLY1305_SHA256 {
			return errors.New("another suite was chosen")
		}
	case "keyupdate":
		local, remote := c.seen.localKeyUpdates.Load(), c.seen.remoteKeyUpdates.Load()
		r["key_updates"], r["key_updates_local"], r["key_updates_remote"] = local+remote, local, remote
		if local == 0 {
			return errors.New("the client did not update keys: the work was too short")
		}
	case "ecn":
		state, _ := c.seen.ecn.Load().(string)
		r["ecn"] = state
		if state != "capable" {
			return fmt.Errorf("ECN validation ended as %q", state)
		}
	case "versionnegotiation":
		r["version_negotiation"] = c.seen.versionNegotiation.Load()
		if !c.seen.versionNegotiation.Load() {
			return errors.New("the server did not negotiate the version")
		}
	case "rebind", "migration":
		select {
		case err := <-acted:
			r["migrations"], r["to"] = 1, conn.LocalAddr().String()
			return err
		default:
			return errors.New("the work ended before its middle")
		}
	}
	r["retry"] = c.seen.retry.Load()
	return nil
}

// migrate validates a path from another socket and moves there.
func (c *caller) migrate(conn *quic.Conn) error {
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	path, err := conn.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	if err := path.Probe(ctx); err != nil {
		return fmt.Errorf("the new path was not validated: %w", err)
	}
	return path.Switch()
}

// echo sends datagrams and counts those that come back.
func (c *caller) echo(conn *quic.Conn) error {
	for number := range c.datagrams {
		if err := conn.SendDatagram(binary.BigEndian.AppendUint64(nil, number)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), echoWait)
	defer cancel()
	var echoed uint64
	for echoed < c.datagrams {
		datagram, err := conn.ReceiveDatagram(ctx)
		if err != nil {
			break
		}
		if len(datagram) == 8 {
			echoed++
		}
	}
	report{"case": "datagram", "sent": c.datagrams, "echoed": echoed}.print()
	if echoed == 0 {
		return errors.New("no datagram came back")
	}
	return conn.CloseWithError(0, "")
}

// twice does the work on two connections; the second uses what the first one was given.
func (c *caller) twice() error {
	ctx := context.Background()
	sessions := newTickets()
	c.tls.ClientSessionCache = sessions
	c.config.TokenStore = quic.NewLRUTokenStore(1, 4)
	// The first path on one connection and the others on the next; other work, or a single path, on both.
	first, second := c.paths, c.paths
	if len(c.paths) > 1 {
		first, second = c.paths[:1], c.paths[1:]
	}
	conn, err := c.connect(ctx, false)
	if err != nil {
		return err
	}
	if err := c.work(ctx, conn, first, newProgress(c.clientOptions, nil)); err != nil {
		return err
	}
	select {
	case <-sessions.arrived:
	case <-time.After(ticketWait):
		return errors.New("no session ticket arrived")
	}
	if err := conn.CloseWithError(0, ""); err != nil {
		return err
	}

	p := newProgress(c.clientOptions, nil)
	start := time.Now()
	if conn, err = c.connect(ctx, c.testCase == "zerortt"); err != nil {
		return err
	}
	if err := c.work(ctx, conn, second, p); err != nil {
		return err
	}
	elapsed := time.Since(start)
	<-conn.HandshakeComplete()
	state := conn.ConnectionState()
	r := c.observed(conn, p, elapsed)
	r["resumed"], r["zero_rtt_accepted"] = state.TLS.DidResume, state.Used0RTT
	r.print()
	if err := conn.CloseWithError(0, ""); err != nil {
		return err
	}
	if !state.TLS.DidResume {
		return errors.New("the second handshake was a full one")
	}
	if c.testCase == "zerortt" && !state.Used0RTT {
		return errors.New("0-RTT was not accepted")
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
				conn, err := c.connect(ctx, false)
				if err != nil {
					return err
				}
				if err := conn.CloseWithError(0, ""); err != nil {
					return err
				}
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
