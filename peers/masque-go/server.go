package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quic-go/masque-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
)

// path is the path of the default template (RFC 9298 section 2).
const path = "/.well-known/masque/udp/{target_host}/{target_port}/"

// initialPacketSize leaves room for a QUIC connection inside of the tunnel, as masque-go's own default does.
const initialPacketSize = 1350

// proxy is a proxy for UDP whose flows can all be ended.
type proxy struct {
	template *uritemplate.Template
	// life is the time after which all flows end; zero if none does.
	life    time.Duration
	current atomic.Pointer[masque.Proxy]
}

// serve is a proxy until the process is told to end.
func serve(args []string) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	listen := flags.String("listen", "", "IP:PORT")
	cert := flags.String("cert", "", "PEM")
	key := flags.String("key", "", "PEM")
	lifeMs := flags.Int64("flow-ms", 0, "milliseconds after which the proxy ends a flow")
	if err := flags.Parse(args); err != nil {
		return err
	}
	end := ending()
	identity, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		return err
	}
	address, err := net.ResolveUDPAddr("udp", *listen)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	template, err := uritemplate.New("https://" + socket.LocalAddr().String() + path)
	if err != nil {
		return err
	}
	handler := &proxy{template: template, life: time.Duration(*lifeMs) * time.Millisecond}
	handler.current.Store(&masque.Proxy{})
	server := http3.Server{
		Handler:         handler,
		TLSConfig:       http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{identity}}),
		QUICConfig:      &quic.Config{EnableDatagrams: true, InitialPacketSize: initialPacketSize},
		EnableDatagrams: true,
	}
	fmt.Printf("listening %s\n", socket.LocalAddr())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(socket) }()
	select {
	case err := <-failed:
		return err
	case <-end:
		return errors.Join(server.Close(), handler.current.Load().Close())
	}
}

// ServeHTTP implements http.Handler: it carries a flow until one end has ended it.
func (p *proxy) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	parsed, err := masque.ParseProxyRequest(request, p.template)
	if err != nil {
		status := http.StatusBadRequest
		var refusal *masque.ProxyRequestParseError
		if errors.As(err, &refusal) {
			status = refusal.HTTPStatus
		}
		response.WriteHeader(status)
		return
	}
	current := p.current.Load()
	if p.life > 0 {
		time.AfterFunc(p.life, func() {
			if p.current.CompareAndSwap(current, &masque.Proxy{}) {
				_ = current.Close()
			}
		})
	}
	if current.Proxy(response, parsed) == nil {
		fmt.Printf("closed %s\n", parsed.Target)
	}
}
