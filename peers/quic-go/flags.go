package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/quic-go/quic-go"
)

// defaultWindow is the stream receive window in bytes; a connection gets twice as much.
const defaultWindow = 16 << 20

// defaultDatagrams is how many datagrams --case datagram sends.
const defaultDatagrams = 10

// cases are the names of the contract.
var cases = []string{
	"handshake", "transfer", "multiplexing", "resumption", "zerortt", "keyupdate", "chacha20", "v2", "rebind",
	"migration", "datagram", "versionnegotiation", "ecn",
}

// common are the settings of either side.
type common struct {
	oneCore int
	idleMs  int64
	window  uint64
	noGSO   bool
	v2      bool
}

func (c *common) define(flags *flag.FlagSet) {
	flags.IntVar(&c.oneCore, "one-core", -1, "pin to this CPU and use one thread")
	flags.Int64Var(&c.idleMs, "idle-ms", 30_000, "idle timeout")
	flags.Uint64Var(&c.window, "window", defaultWindow, "stream receive window in bytes")
	flags.BoolVar(&c.noGSO, "no-gso", false, "one packet per system call")
	flags.BoolVar(&c.v2, "v2", false, "QUIC version 2 too")
}

// apply does what must precede everything else.
func (c *common) apply() error {
	// The stack would log what a system does not allow; stderr is for failures.
	if err := os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true"); err != nil {
		return err
	}
	if c.noGSO {
		if err := os.Setenv("QUIC_GO_DISABLE_GSO", "true"); err != nil {
			return err
		}
	}
	if c.oneCore >= 0 {
		return pin(c.oneCore)
	}
	return nil
}

// config holds the transport settings of both sides.
func (c *common) config() *quic.Config {
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		MaxIdleTimeout:                 time.Duration(c.idleMs) * time.Millisecond,
		InitialStreamReceiveWindow:     c.window,
		MaxStreamReceiveWindow:         c.window,
		InitialConnectionReceiveWindow: 2 * c.window,
		MaxConnectionReceiveWindow:     2 * c.window,
		EnableDatagrams:                true,
	}
}

// serverOptions is server and its flags.
type serverOptions struct {
	common
	listen netip.AddrPort
	cert   string
	key    string
	root   string
	retry  bool
	// noTickets turns session tickets off.
	noTickets bool
	// resetKey is where stateless reset tokens come from, so that they outlive the process.
	resetKey *quic.StatelessResetKey
}

func parseServer(args []string) (*serverOptions, error) {
	var o serverOptions
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	o.define(flags)
	flags.TextVar(&o.listen, "listen", netip.AddrPort{}, "IP:PORT")
	flags.StringVar(&o.cert, "cert", "", "PEM")
	flags.StringVar(&o.key, "key", "", "PEM")
	flags.StringVar(&o.root, "root", "", "files for hq-interop and h3")
	flags.Func("reset-key", "64 hexadecimal digits for stateless reset tokens", func(digits string) error {
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != len(quic.StatelessResetKey{}) {
			return errors.New("a reset key has 64 hexadecimal digits")
		}
		o.resetKey = (*quic.StatelessResetKey)(key)
		return nil
	})
	flags.BoolVar(&o.retry, "retry", false, "answer Initials without a token with Retry")
	flags.Bool("migrate-ok", true, "the default")
	noMigration := flags.Bool("no-migration", false, "send disable_active_migration")
	tickets := flags.Uint("tickets", 1, "session tickets for each handshake, 0 or 1")
	preferred := flags.String("preferred", "", "send preferred_address")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *noMigration || *preferred != "" {
		return nil, fmt.Errorf("%w: quic-go sends neither disable_active_migration nor preferred_address", errUnsupported)
	}
	if *tickets > 1 {
		return nil, fmt.Errorf("%w: quic-go issues at most one ticket", errUnsupported)
	}
	o.noTickets = *tickets == 0
	if !o.listen.IsValid() || o.cert == "" || o.key == "" {
		return nil, errors.New("a server needs --listen, --cert and --key")
	}
	return &o, nil
}

// clientOptions is client and its flags.
type clientOptions struct {
	common
	connect     netip.AddrPort
	name        string
	ca          string
	testCase    string
	alpn        string
	download    uint64
	upload      uint64
	streams     uint64
	out         string
	paths       []string
	handshakes  int64
	requests    int64
	concurrency int64
	connections int64
	http3       bool
	datagrams   uint64
}

func parseClient(args []string) (*clientOptions, error) {
	var o clientOptions
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	o.define(flags)
	flags.TextVar(&o.connect, "connect", netip.AddrPort{}, "IP:PORT")
	flags.StringVar(&o.name, "name", "localhost", "server name")
	flags.StringVar(&o.ca, "ca", "", "PEM")
	flags.StringVar(&o.testCase, "case", "", "case")
	flags.StringVar(&o.alpn, "alpn", "", "perf, hq-interop or h3")
	flags.Uint64Var(&o.download, "download", 0, "bytes in all")
	flags.Uint64Var(&o.upload, "upload", 0, "bytes in all")
	flags.Uint64Var(&o.streams, "streams", 1, "streams")
	flags.StringVar(&o.out, "out", "", "where to store files")
	flags.Int64Var(&o.handshakes, "handshakes", 0, "full handshakes")
	flags.BoolVar(&o.http3, "http3", false, "fetch over HTTP/3")
	flags.Int64Var(&o.requests, "requests", 0, "small requests over HTTP/3")
	flags.Int64Var(&o.concurrency, "concurrency", 1, "handshakes at once, or requests at once on each connection")
	flags.Int64Var(&o.connections, "connections", 1, "connections for the requests")
	flags.Uint64Var(&o.datagrams, "datagrams", 0, "datagrams to send")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.paths = flags.Args()
	return &o, o.complete()
}

// complete checks the options and fills in what follows from others.
func (o *clientOptions) complete() error {
	if !o.connect.IsValid() || o.ca == "" {
		return errors.New("a client needs --connect and --ca")
	}
	if o.testCase == "" {
		o.testCase = "transfer"
		if o.v2 {
			o.testCase = "v2"
		}
	}
	if !slices.Contains(cases, o.testCase) {
		return fmt.Errorf("unknown case %s", o.testCase)
	}
	if o.testCase == "datagram" && o.datagrams == 0 {
		o.datagrams = defaultDatagrams
	}
	needed := "perf"
	switch {
	case o.handshakes > 0 || o.datagrams > 0:
		if o.http3 {
			return errors.New("this work is not done over HTTP/3")
		}
	case o.requests > 0 && (!o.http3 || len(o.paths) != 1):
		return errors.New("--requests needs --http3 and one path")
	case o.http3:
		needed = "h3"
	case len(o.paths) > 0 || o.alpn == "hq-interop":
		needed = "hq-interop"
	}
	if o.alpn != "" && o.alpn != needed {
		return fmt.Errorf("this work needs --alpn %s", needed)
	}
	o.alpn = needed
	o.streams = max(o.streams, 1)
	o.concurrency = max(o.concurrency, 1)
	o.connections = max(o.connections, 1)
	return nil
}
