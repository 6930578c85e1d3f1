package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
)

// path is the path of the default template (RFC 9484 section 3) for all targets and all protocols.
const path = "/.well-known/masque/ip/*/*/"

// initialPacketSize leaves room for packets of 1,280 bytes, as connect-ip-go's own default does.
const initialPacketSize = 1350

// everything has all routes that a proxy can advertise.
var everything = []connectip.IPRoute{
	{StartIP: netip.IPv4Unspecified(), EndIP: netip.AddrFrom4([4]byte{255, 255, 255, 255})},
	{StartIP: netip.IPv6Unspecified(), EndIP: netip.AddrFrom16([16]byte{
		255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
	})},
}

// proxy assigns addresses and answers packets.
type proxy struct {
	template *uritemplate.Template
	assigned []netip.Prefix
}

// serve is a proxy until the process is told to end. Behind it is no network: it answers itself what is sent to any address.
func serve(args []string) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	listen := flags.String("listen", "", "IP:PORT")
	name := flags.String("name", "", "host in the client's URL, if it is not the address")
	cert := flags.String("cert", "", "PEM")
	key := flags.String("key", "", "PEM")
	var handler proxy
	flags.Func("assign", "address of the client, with the length of its prefix; may be repeated", func(text string) error {
		prefix, err := netip.ParsePrefix(text)
		handler.assigned = append(handler.assigned, prefix)
		return err
	})
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
	authority := socket.LocalAddr().String()
	if *name != "" {
		_, port, _ := net.SplitHostPort(authority)
		authority = net.JoinHostPort(*name, port)
	}
	if handler.template, err = uritemplate.New("https://" + authority + path); err != nil {
		return err
	}
	server := http3.Server{
		Handler:         &handler,
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
		return server.Close()
	}
}

// ServeHTTP implements http.Handler: it carries packets until one end has ended the tunnel.
func (p *proxy) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	parsed, err := connectip.ParseProxyRequest(request, p.template)
	if err != nil || request.URL.Path != path {
		status := http.StatusNotFound
		var refusal *connectip.ProxyRequestParseError
		if errors.As(err, &refusal) {
			status = refusal.HTTPStatus
		}
		response.WriteHeader(status)
		return
	}
	conn, err := new(connectip.Proxy).Proxy(response, parsed)
	if err != nil {
		return
	}
	defer conn.Close()
	if err := conn.AdvertiseRoute(everything); err != nil {
		return
	}
	go p.assign(conn)
	answer(conn)
	fmt.Println("closed")
}

// assign answers requests for addresses: each gets that of its family.
func (p *proxy) assign(conn *connectip.Conn) {
	for {
		request, err := conn.ReceiveAddressRequest(context.Background())
		if err != nil {
			return
		}
		assignments := make([]netip.Prefix, len(request.Prefixes))
		for at, wanted := range request.Prefixes {
			for _, own := range p.assigned {
				if own.Addr().Is4() == wanted.Addr().Is4() {
					assignments[at] = own
				}
			}
		}
		if request.Respond(assignments, nil) != nil {
			return
		}
	}
}

// answer answers echo requests and UDP datagrams until the tunnel ends.
func answer(conn *connectip.Conn) {
	buffer := make([]byte, maxPacket)
	for {
		n, err := conn.ReadPacket(buffer)
		if err != nil {
			return
		}
		if packet := buffer[:n]; turn(packet) {
			if _, err := conn.WritePacket(packet); err != nil {
				return
			}
		}
	}
}
