package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/quic"
	"golang.org/x/sync/errgroup"
)

// maxRequest is the largest request line a server reads, in bytes.
const maxRequest = 4096

// farewell is how long a server waits for its clients to acknowledge its end.
const farewell = 100 * time.Millisecond

// serve answers perf and hq-interop until the process is told to end.
func serve(o *serverOptions) error {
	end := ending()
	cert, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return err
	}
	config := o.config()
	config.MaxBidiRemoteStreams = maxStreams
	config.RequireAddressValidation = o.retry
	config.StatelessResetKey = o.resetKey
	config.TLSConfig = &tls.Config{
		MinVersion:       tls.VersionTLS13,
		Certificates:     []tls.Certificate{cert},
		NextProtos:       []string{"perf", "hq-interop"},
		CurvePreferences: groups,
	}
	endpoint, err := quic.Listen("udp", o.listen.String(), config)
	if err != nil {
		return err
	}
	fmt.Printf("listening %s\n", endpoint.LocalAddr())
	go func() {
		for {
			conn, err := endpoint.Accept(context.Background())
			if err != nil {
				return
			}
			go answer(conn, o.root)
		}
	}()
	<-end
	// Clients that are gone do not acknowledge anything, so that a timeout is no failure.
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = endpoint.Close(ctx)
	report{}.print()
	return nil
}

// answer serves one connection. A client that goes away is its own test's business.
func answer(conn *quic.Conn, root string) {
	hq := conn.ConnectionState().NegotiatedProtocol == "hq-interop"
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			conn.Abort(nil)
			return
		}
		go func() {
			// Only a stream whose two directions are closed here makes room for another one.
			defer stream.CloseRead()
			if hq {
				answerFile(stream, root)
			} else {
				answerPerf(stream)
			}
		}()
	}
}

// answerPerf sends as many bytes as the first eight ask for; whatever else the client sends is dropped.
func answerPerf(stream *quic.Stream) {
	var count [8]byte
	if _, err := io.ReadFull(stream, count[:]); err != nil {
		_ = stream.Reset(1)
		return
	}
	var group errgroup.Group
	group.Go(func() error {
		_, err := drain(stream)
		return err
	})
	group.Go(func() error {
		if err := sendBytes(stream, binary.BigEndian.Uint64(count[:])); err != nil {
			return err
		}
		return stream.Flush()
	})
	// The answer's end tells the client that all it sent has arrived.
	if group.Wait() == nil {
		_ = stream.CloseWrite()
	}
}

func answerFile(stream *quic.Stream, root string) {
	request, err := io.ReadAll(io.LimitReader(stream, maxRequest))
	if err != nil {
		_ = stream.Reset(1)
		return
	}
	path, isGet := strings.CutPrefix(strings.TrimRight(string(request), "\r\n"), "GET /")
	if !isGet || root == "" || !filepath.IsLocal(path) {
		_ = stream.Reset(1)
		return
	}
	file, err := os.Open(filepath.Join(root, path))
	if err != nil {
		_ = stream.Reset(1)
		return
	}
	defer file.Close()
	if _, err := io.Copy(stream, file); err == nil {
		_ = stream.CloseWrite()
	}
}
