package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"
)

// maxRequest is the largest request line a server reads, in bytes.
const maxRequest = 4096

// serve answers perf, hq-interop and h3 until the process is told to end.
func serve(o *serverOptions) error {
	end := ending()
	cert, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(o.listen))
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket, StatelessResetKey: o.resetKey}
	if o.retry {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	config := o.config()
	config.Allow0RTT = true
	if o.v2 {
		config.Versions = append(config.Versions, quic.Version2)
	}
	listener, err := transport.ListenEarly(&tls.Config{
		Certificates:           []tls.Certificate{cert},
		NextProtos:             []string{"perf", "hq-interop", "h3"},
		CurvePreferences:       []tls.CurveID{tls.X25519, tls.CurveP256},
		SessionTicketsDisabled: o.noTickets,
	}, config)
	if err != nil {
		return err
	}
	fmt.Printf("listening %s\n", socket.LocalAddr())
	go func() {
		for {
			conn, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			go answer(conn, o.root)
		}
	}()
	<-end
	if err := transport.Close(); err != nil {
		return err
	}
	report{}.print()
	return nil
}

// answer serves one connection. A client that goes away is its own test's business.
func answer(conn *quic.Conn, root string) {
	protocol := conn.ConnectionState().TLS.NegotiatedProtocol
	if protocol == "h3" {
		web{root}.serve(conn)
		return
	}
	hq := protocol == "hq-interop"
	if !hq {
		go echoDatagrams(conn)
	}
	for {
		stream, err := conn.AcceptStream(conn.Context())
		if err != nil {
			return
		}
		if hq {
			go answerFile(stream, root)
		} else {
			go answerPerf(stream)
		}
	}
}

func echoDatagrams(conn *quic.Conn) {
	for {
		datagram, err := conn.ReceiveDatagram(conn.Context())
		if err != nil {
			return
		}
		if conn.SendDatagram(datagram) != nil {
			return
		}
	}
}

// answerPerf sends as many bytes as the first eight ask for; whatever else the client sends is dropped.
func answerPerf(stream *quic.Stream) {
	var count [8]byte
	if _, err := io.ReadFull(stream, count[:]); err != nil {
		stream.CancelWrite(1)
		return
	}
	var group errgroup.Group
	group.Go(func() error {
		_, err := drain(stream, nil)
		return err
	})
	group.Go(func() error { return sendBytes(stream, binary.BigEndian.Uint64(count[:]), nil) })
	// The answer's end tells the client that all it sent has arrived.
	if group.Wait() == nil {
		_ = stream.Close()
	}
}

func answerFile(stream *quic.Stream, root string) {
	request, err := io.ReadAll(io.LimitReader(stream, maxRequest))
	if err != nil {
		stream.CancelWrite(1)
		return
	}
	path, isGet := strings.CutPrefix(strings.TrimRight(string(request), "\r\n"), "GET /")
	if !isGet || root == "" || !filepath.IsLocal(path) {
		stream.CancelWrite(1)
		return
	}
	file, err := os.Open(filepath.Join(root, path))
	if err != nil {
		stream.CancelWrite(1)
		return
	}
	defer file.Close()
	if _, err := io.Copy(stream, file); err == nil {
		_ = stream.Close()
	}
}
