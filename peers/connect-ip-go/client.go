package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// patience limits the whole visit.
const patience = 10 * time.Second

// again is the time after which a packet is sent again, since packets may be lost.
const again = 300 * time.Millisecond

// port is the source of all datagrams.
const port = 40_000

// linkMTU is the length of a packet that fits on Ethernet and not into the tunnel, in bytes.
const linkMTU = 1500

// observed is what the client reports of its tunnel.
type observed struct {
	// Addresses are those that the proxy has assigned, and Routes the ranges that it forwards.
	Addresses []string `json:"addresses"`
	Routes    []string `json:"routes"`
	// Pinged and Echoed have the targets that answered an echo request, and a datagram.
	Pinged []string `json:"pinged"`
	Echoed []string `json:"echoed"`
	// MTUs are those that the stack told the senders of packets of linkMTU bytes, each followed by a packet of that length that
	// was echoed.
	MTUs []int `json:"mtus"`
	// Fragments counts the packets in which an answer of linkMTU bytes arrived.
	Fragments []int `json:"fragments"`
}

// tunnel is the client's end of a tunnel, and what it has found out.
type tunnel struct {
	conn     *connectip.Conn
	own      map[bool]netip.Addr // by whether it is an IPv4 address
	packets  chan []byte
	observed observed
}

// visit opens a tunnel, sends packets to targets, and reports.
func visit(args []string) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	template := flags.String("template", "", "URI template of the proxy")
	ca := flags.String("ca", "", "PEM")
	token := flags.String("token", "", "bearer token")
	work := flags.String("case", "", "address, ping, udp, too-big or too-big-back")
	var targets []netip.AddrPort
	flags.Func("target", "IP:PORT that echoes datagrams; may be repeated", func(text string) error {
		target, err := netip.ParseAddrPort(text)
		targets = append(targets, target)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := dial(ctx, *template, *ca, *token)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := tunnel{conn: conn, own: map[bool]netip.Addr{}, packets: make(chan []byte, 64)}
	if err := t.learn(ctx); err != nil {
		return err
	}
	go t.read()
	steps := map[string]func(context.Context, netip.AddrPort) error{
		"address":      func(context.Context, netip.AddrPort) error { return nil },
		"ping":         t.ping,
		"udp":          t.udp,
		"too-big":      t.tooBig,
		"too-big-back": t.tooBigBack,
	}
	step, ok := steps[*work]
	if !ok {
		return fmt.Errorf("unknown case %s", *work)
	}
	for _, target := range targets {
		if err := step(ctx, target); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return tell(t.observed)
}

func dial(ctx context.Context, text, ca, token string) (*connectip.Conn, error) {
	template, err := uritemplate.New(text)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", ca)
	}
	request, err := connectip.NewRequest(ctx, template)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header().Set("Proxy-Authorization", "Bearer "+token)
	}
	transport := connectip.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: []string{http3.NextProtoH3}},
		QUICConfig:      &quic.Config{EnableDatagrams: true, InitialPacketSize: initialPacketSize},
	}
	conn, _, err := transport.Dial(request)
	return conn, err
}

// learn requests an address of each family, and waits until they and the routes are there.
func (t *tunnel) learn(ctx context.Context) error {
	any := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::/128")}
	if _, err := t.conn.RequestAddresses(any); err != nil {
		return err
	}
	for len(t.own) < len(any) {
		assigned, err := t.conn.ReceiveAddressAssignment(ctx)
		if err != nil {
			return fmt.Errorf("addresses: %w", err)
		}
		t.observed.Addresses = nil
		for _, one := range assigned {
			if !one.Rejected() {
				t.own[one.IPPrefix.Addr().Is4()] = one.IPPrefix.Addr()
				t.observed.Addresses = append(t.observed.Addresses, one.IPPrefix.String())
			}
		}
	}
	routes, err := t.conn.Routes(ctx)
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	for _, one := range routes {
		t.observed.Routes = append(t.observed.Routes, fmt.Sprintf("%s-%s/%d", one.StartIP, one.EndIP, one.IPProtocol))
	}
	return nil
}

// read collects the packets that arrive, until the tunnel ends.
func (t *tunnel) read() {
	buffer := make([]byte, maxPacket)
	for {
		n, err := t.conn.ReadPacket(buffer)
		if err != nil {
			close(t.packets)
			return
		}
		t.packets <- bytes.Clone(buffer[:n])
	}
}

// until sends packets again and again, until wanted accepts one that arrives. It returns that one, or the ICMP message with which
// the stack answered instead of sending.
func (t *tunnel) until(ctx context.Context, packet []byte, wanted func(parsed) bool) (answer, refused []byte, err error) {
	for {
		refused, err := t.conn.WritePacket(bytes.Clone(packet))
		if err != nil || refused != nil {
			return nil, refused, err
		}
		for late := time.After(again); late != nil; {
			select {
			case <-ctx.Done():
				return nil, nil, errors.New("no answer")
			case <-late:
				late = nil
			case answer, ok := <-t.packets:
				if !ok {
					return nil, nil, errors.New("the tunnel has ended")
				}
				if p, ok := parse(answer); ok && wanted(p) {
					return answer, nil, nil
				}
			}
		}
	}
}

// ping waits for the reply to an echo request.
func (t *tunnel) ping(ctx context.Context, target netip.AddrPort) error {
	const number = 7
	request, err := echoRequest(t.own[target.Addr().Is4()], target.Addr(), number)
	if err != nil {
		return err
	}
	isReply := func(p parsed) bool {
		protocol, kind := protocolICMP, icmp.Type(ipv4.ICMPTypeEchoReply)
		if p.source.Is6() {
			protocol, kind = protocolICMPv6, ipv6.ICMPTypeEchoReply
		}
		message, err := icmp.ParseMessage(protocol, p.payload)
		if err != nil || message.Type != kind || p.source != target.Addr() || int(p.protocol) != protocol {
			return false
		}
		echo, ok := message.Body.(*icmp.Echo)
		return ok && echo.Seq == number && string(echo.Data) == "anabranch"
	}
	if _, _, err := t.until(ctx, request, isReply); err != nil {
		return err
	}
	t.observed.Pinged = append(t.observed.Pinged, target.Addr().String())
	return nil
}

// udp waits for the echo of a datagram.
func (t *tunnel) udp(ctx context.Context, target netip.AddrPort) error {
	refused, err := t.echo(ctx, target, 1000)
	if err != nil || refused != nil {
		return errors.Join(errors.New("1,000 bytes do not fit"), err)
	}
	t.observed.Echoed = append(t.observed.Echoed, target.Addr().String())
	return nil
}

// echo waits for the echo of a packet of this length. It returns the ICMP message with which the stack refuses the packet.
func (t *tunnel) echo(ctx context.Context, target netip.AddrPort, length int) ([]byte, error) {
	payload := bytes.Repeat([]byte("echo"), length)[:length-t.headers(target)]
	packet := datagram(t.from(target), target, payload)
	isEcho := func(p parsed) bool {
		return p.source == target.Addr() && p.protocol == protocolUDP && len(p.payload) == 8+len(payload) &&
			bytes.Equal(p.payload[8:], payload)
	}
	_, refused, err := t.until(ctx, packet, isEcho)
	return refused, err
}

// from returns the source of datagrams to a target.
func (t *tunnel) from(target netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(t.own[target.Addr().Is4()], port)
}

// headers returns the length of the headers of a datagram to a target, in bytes.
func (*tunnel) headers(target netip.AddrPort) int {
	if target.Addr().Is4() {
		return ipv4.HeaderLen + 8
	}
	return ipv6.HeaderLen + 8
}

// tooBig sends a packet that does not fit, and then one as long as the stack says.
func (t *tunnel) tooBig(ctx context.Context, target netip.AddrPort) error {
	refused, err := t.echo(ctx, target, linkMTU)
	if err != nil {
		return err
	}
	p, ok := parse(refused)
	if !ok {
		return errors.New("a packet of 1,500 bytes was not refused")
	}
	message, err := icmp.ParseMessage(int(p.protocol), p.payload)
	if err != nil {
		return err
	}
	told, ok := message.Body.(*icmp.PacketTooBig)
	mtu := 0
	switch {
	case ok:
		mtu = told.MTU
	case message.Type == ipv4.ICMPTypeDestinationUnreachable && len(p.payload) >= 8:
		// golang.org/x/net reads no MTU from these messages (RFC 1191).
		mtu = int(p.payload[6])<<8 | int(p.payload[7])
	}
	if mtu < 1280 || mtu >= linkMTU {
		return fmt.Errorf("an MTU of %d bytes", mtu)
	}
	if again, err := t.echo(ctx, target, mtu); err != nil || again != nil {
		return errors.Join(fmt.Errorf("%d bytes do not fit either", mtu), err)
	}
	t.observed.MTUs = append(t.observed.MTUs, mtu)
	return nil
}

// tooBigBack asks for an answer that does not fit, until its sender has learned that and sends it in pieces.
func (t *tunnel) tooBigBack(ctx context.Context, target netip.AddrPort) error {
	// The target answers this request with as many bytes as fit on Ethernet.
	packet := datagram(t.from(target), target, []byte("large"))
	wanted, arrived, count := linkMTU-t.headers(target)+8, 0, 0
	isLast := func(p parsed) bool {
		if p.source != target.Addr() || p.protocol != protocolUDP {
			return false
		}
		if p.offset == 0 {
			arrived, count = 0, 0
		}
		arrived, count = arrived+len(p.payload), count+1
		return !p.more && arrived == wanted
	}
	if _, refused, err := t.until(ctx, packet, isLast); err != nil || refused != nil {
		return errors.Join(errors.New("no complete answer"), err)
	}
	t.observed.Fragments = append(t.observed.Fragments, count)
	return nil
}
