package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/quic"
)

// defaultWindow is the stream receive window in bytes; a connection gets twice as much.
const defaultWindow = 16 << 20

// maxStreams is how many requests a client may have open at once.
const maxStreams = 100

// cases are the names of the contract, each with what the stack lacks for it as a client, if anything.
var cases = map[string]string{
	"handshake":          "",
	"transfer":           "",
	"multiplexing":       "",
	"resumption":         "",
	"keyupdate":          "",
	"chacha20":           "",
	"zerortt":            "x/net/quic says of itself that 0-RTT is not supported",
	"v2":                 "x/net/quic has only QUIC version 1",
	"versionnegotiation": "x/net/quic has only QUIC version 1 and offers no other",
	"migration":          "x/net/quic says of itself that address migration is not supported",
	"rebind":             "the peer's program does not change its port",
	"datagram":           "x/net/quic has no DATAGRAM frames",
	"ecn":                "x/net/quic counts the marks it receives and sends none",
}

// common are the settings of either side.
type common struct {
	oneCore int
	idleMs  int64
	window  int64
	v2      bool
}

func (c *common) define(flags *flag.FlagSet) {
	flags.IntVar(&c.oneCore, "one-core", -1, "pin to this CPU and use one thread")
	flags.Int64Var(&c.idleMs, "idle-ms", 30_000, "idle timeout")
	flags.Int64Var(&c.window, "window", defaultWindow, "stream receive window in bytes")
	flags.Bool("no-gso", false, "the only way: one packet per system call")
	flags.BoolVar(&c.v2, "v2", false, "QUIC version 2 too")
}

// config holds the transport settings of both sides. A handshake may take as long as a silent connection lives.
func (c *common) config() *quic.Config {
	idle := time.Duration(c.idleMs) * time.Millisecond
	return &quic.Config{
		HandshakeTimeout:        idle,
		MaxIdleTimeout:          idle,
		MaxStreamReadBufferSize: c.window,
		MaxConnReadBufferSize:   2 * c.window,
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
	// resetKey is where stateless reset tokens come from, so that they outlive the process.
	resetKey [32]byte
}

func parseServer(args []string) (*serverOptions, error) {
	var o serverOptions
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	o.define(flags)
	flags.TextVar(&o.listen, "listen", netip.AddrPort{}, "IP:PORT")
	flags.StringVar(&o.cert, "cert", "", "PEM")
	flags.StringVar(&o.key, "key", "", "PEM")
	flags.StringVar(&o.root, "root", "", "files for hq-interop")
	flags.Func("reset-key", "64 hexadecimal digits for stateless reset tokens", func(digits string) error {
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != len(o.resetKey) {
			return errors.New("a reset key has 64 hexadecimal digits")
		}
		o.resetKey = [32]byte(key)
		return nil
	})
	flags.BoolVar(&o.retry, "retry", false, "answer Initials without a token with Retry")
	flags.Bool("migrate-ok", true, "the default")
	noMigration := flags.Bool("no-migration", false, "send disable_active_migration")
	preferred := flags.String("preferred", "", "send preferred_address")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *noMigration || *preferred != "" {
		return nil, fmt.Errorf("%w: x/net/quic sends neither disable_active_migration nor preferred_address", errUnsupported)
	}
	if o.v2 {
		return nil, fmt.Errorf("%w: %s", errUnsupported, cases["v2"])
	}
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
	concurrency int64
}

func parseClient(args []string) (*clientOptions, error) {
	var o clientOptions
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	o.define(flags)
	flags.TextVar(&o.connect, "connect", netip.AddrPort{}, "IP:PORT")
	flags.StringVar(&o.name, "name", "localhost", "server name")
	flags.StringVar(&o.ca, "ca", "", "PEM")
	flags.StringVar(&o.testCase, "case", "transfer", "case")
	flags.StringVar(&o.alpn, "alpn", "", "perf or hq-interop")
	flags.Uint64Var(&o.download, "download", 0, "bytes in all")
	flags.Uint64Var(&o.upload, "upload", 0, "bytes in all")
	flags.Uint64Var(&o.streams, "streams", 1, "streams")
	flags.StringVar(&o.out, "out", "", "where to store files")
	flags.Int64Var(&o.handshakes, "handshakes", 0, "full handshakes")
	flags.Int64Var(&o.concurrency, "concurrency", 1, "handshakes at once")
	datagrams := flags.Uint64("datagrams", 0, "datagrams to send")
	http3 := flags.Bool("http3", false, "fetch over HTTP/3")
	requests := flags.Int64("requests", 0, "small requests over HTTP/3")
	flags.Int64("connections", 1, "connections for the requests")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	lacking, known := cases[o.testCase]
	switch {
	case *http3 || *requests > 0:
		lacking = "golang.org/x/net offers no HTTP/3"
	case o.v2:
		lacking = cases["v2"]
	case *datagrams > 0:
		lacking = cases["datagram"]
	}
	if lacking != "" {
		return nil, fmt.Errorf("%w: %s", errUnsupported, lacking)
	}
	if !known {
		return nil, fmt.Errorf("unknown case %s", o.testCase)
	}
	o.paths = flags.Args()
	return &o, o.complete()
}

// complete checks the options and fills in what follows from others.
func (o *clientOptions) complete() error {
	if !o.connect.IsValid() || o.ca == "" {
		return errors.New("a client needs --connect and --ca")
	}
	needed := "perf"
	if o.handshakes == 0 && (len(o.paths) > 0 || o.alpn == "hq-interop") {
		needed = "hq-interop"
	}
	if !slices.Contains([]string{"", needed}, o.alpn) {
		return fmt.Errorf("this work needs --alpn %s", needed)
	}
	o.alpn = needed
	o.streams = max(o.streams, 1)
	o.concurrency = max(o.concurrency, 1)
	return nil
}
