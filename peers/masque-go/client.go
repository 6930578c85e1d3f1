package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/masque-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
)

// patience limits every wait.
const patience = 5 * time.Second

// again is the time after which a payload is sent again, since UDP may lose it.
const again = 500 * time.Millisecond

// observed is what the client reports of its flow.
type observed struct {
	// Status and ProxyStatus are those of the response.
	Status      int    `json:"status"`
	ProxyStatus string `json:"proxy_status"`
	// Echoed has the lengths of the payloads that came back as they were sent.
	Echoed []int `json:"echoed"`
	// Ended says whether the proxy ended the flow within patience, if the client waited for that.
	Ended bool `json:"ended"`
}

// flow opens a flow to a target, sends payloads that the target echoes, and reports.
func flow(args []string) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	template := flags.String("template", "", "URI template of the proxy")
	ca := flags.String("ca", "", "PEM")
	token := flags.String("token", "", "bearer token")
	target := flags.String("target", "", "HOST:PORT")
	sizes := flags.String("sizes", "1", "lengths of the payloads, with commas between them")
	untilEnd := flags.Bool("until-end", false, "wait until the proxy ends the flow")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	conn, response, err := dial(ctx, *template, *ca, *token, *target)
	if response == nil {
		return err
	}
	report := observed{Status: response.StatusCode, ProxyStatus: response.Header.Get("Proxy-Status"), Echoed: []int{}}
	if err != nil {
		return tell(report)
	}
	for size := range strings.SplitSeq(*sizes, ",") {
		length, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		if err := echo(conn, length); err != nil {
			return err
		}
		report.Echoed = append(report.Echoed, length)
	}
	if *untilEnd {
		report.Ended = ended(conn)
	}
	// A proxy that ended the flow may have cancelled the client's direction of the stream, too: then there is nothing to close.
	if err := conn.Close(); err != nil && !report.Ended {
		return err
	}
	return tell(report)
}

// dial requests a flow. Without a response the error says why there is none.
func dial(ctx context.Context, text, ca, token, target string) (*masque.Conn, *http.Response, error) {
	template, err := uritemplate.New(text)
	if err != nil {
		return nil, nil, err
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("no certificate in %s", ca)
	}
	request, err := masque.NewRequest(ctx, template, target)
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		request.Header().Set("Proxy-Authorization", "Bearer "+token)
	}
	transport := masque.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: []string{http3.NextProtoH3}},
		QUICConfig:      &quic.Config{EnableDatagrams: true, InitialPacketSize: initialPacketSize},
	}
	return transport.Dial(request)
}

// echo sends a payload until it comes back.
func echo(conn *masque.Conn, length int) error {
	payload := make([]byte, length)
	for at := range payload {
		payload[at] = byte(length + 7*at)
	}
	buffer := make([]byte, 2048)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := conn.WriteTo(payload, nil); err != nil {
			return fmt.Errorf("%d bytes: %w", length, err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(again)); err != nil {
			return err
		}
		n, _, err := conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%d bytes: %w", length, err)
		}
		if string(buffer[:n]) == string(payload) {
			return nil
		}
	}
	return fmt.Errorf("%d bytes did not come back", length)
}

// ended waits until the proxy ends the flow. Returns whether it did.
func ended(conn *masque.Conn) bool {
	if conn.SetReadDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	buffer := make([]byte, 2048)
	for {
		_, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
		}
	}
}
