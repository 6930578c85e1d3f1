package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	_ "unsafe" // for linkname
)

// crypto/tls does not let a configuration choose TLS 1.3 suites; it keeps these lists reachable for this purpose.

//go:linkname defaultCipherSuitesTLS13 crypto/tls.defaultCipherSuitesTLS13
var defaultCipherSuitesTLS13 []uint16

//go:linkname defaultCipherSuitesTLS13NoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var defaultCipherSuitesTLS13NoAES []uint16

// onlyChaCha20 limits every handshake of this process to one suite.
func onlyChaCha20() {
	only := []uint16{tls.TLS_CHACHA20_POLY1305_SHA256}
	defaultCipherSuitesTLS13, defaultCipherSuitesTLS13NoAES = only, only
}

// groups are the key exchanges of both sides, without a post-quantum one as in all peers.
var groups = []tls.CurveID{tls.X25519, tls.CurveP256}

// tickets is a session cache that says when the first ticket has arrived.
type tickets struct {
	tls.ClientSessionCache
	arrived chan struct{}
}

func newTickets() *tickets {
	return &tickets{tls.NewLRUClientSessionCache(4), make(chan struct{}, 1)}
}

// Put implements tls.ClientSessionCache.
func (t *tickets) Put(key string, state *tls.ClientSessionState) {
	t.ClientSessionCache.Put(key, state)
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

func (o *clientOptions) tlsConfig() (*tls.Config, error) {
	pem, err := os.ReadFile(o.ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", o.ca)
	}
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		ServerName:       o.name,
		RootCAs:          roots,
		NextProtos:       []string{o.alpn},
		CurvePreferences: groups,
	}, nil
}
