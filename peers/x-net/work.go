package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/net/quic"
	"golang.org/x/sync/errgroup"
)

// pattern is what performance streams carry; it stays in the second-level cache.
var pattern = bytes.Repeat([]byte{0x5a}, 64<<10)

// sendBytes writes count bytes of the pattern.
func sendBytes(stream *quic.Stream, count uint64) error {
	for count > 0 {
		n, err := stream.Write(pattern[:min(count, uint64(len(pattern)))])
		if err != nil {
			return err
		}
		count -= uint64(n)
	}
	return nil
}

// drain reads and drops everything up to the end of the stream; it returns how much that was.
func drain(stream *quic.Stream) (uint64, error) {
	n, err := io.CopyBuffer(io.Discard, onlyReader{stream}, make([]byte, len(pattern)))
	return uint64(n), err
}

// onlyReader hides whatever else a stream can do, so that copies use the given buffer.
type onlyReader struct{ io.Reader }

// share is the part of total that stream index of count carries.
func share(total, index, count uint64) uint64 {
	if index < total%count {
		return total/count + 1
	}
	return total / count
}

// work does what o asks for on conn; only are the paths to fetch. It returns how many bytes moved.
func (o *clientOptions) work(ctx context.Context, conn *quic.Conn, only []string) (uint64, error) {
	var moved atomic.Uint64
	group, ctx := errgroup.WithContext(ctx)
	start := func(do func(*quic.Stream) (uint64, error)) error {
		// Waits for credit when the server allows fewer streams than are wanted.
		stream, err := conn.NewStream(ctx)
		if err != nil {
			return err
		}
		stream.SetReadContext(ctx)
		stream.SetWriteContext(ctx)
		group.Go(func() error {
			defer stream.CloseRead()
			n, err := do(stream)
			moved.Add(n)
			return err
		})
		return nil
	}
	var err error
	if o.alpn == "hq-interop" {
		for _, path := range only {
			if err = start(func(stream *quic.Stream) (uint64, error) { return o.fetch(stream, path) }); err != nil {
				break
			}
		}
	} else {
		for index := range o.streams {
			download, upload := share(o.download, index, o.streams), share(o.upload, index, o.streams)
			if err = start(func(stream *quic.Stream) (uint64, error) { return perf(stream, download, upload) }); err != nil {
				break
			}
		}
	}
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	return moved.Load(), err
}

func perf(stream *quic.Stream, download, upload uint64) (uint64, error) {
	if _, err := stream.Write(binary.BigEndian.AppendUint64(nil, download)); err != nil {
		return 0, err
	}
	if err := stream.Flush(); err != nil {
		return 0, err
	}
	var group errgroup.Group
	group.Go(func() error {
		if err := sendBytes(stream, upload); err != nil {
			return err
		}
		return stream.CloseWrite()
	})
	received, err := drain(stream)
	if err != nil {
		return received, err
	}
	if received != download {
		return received, fmt.Errorf("asked for %d bytes, got %d", download, received)
	}
	return received + upload, group.Wait()
}

func (o *clientOptions) fetch(stream *quic.Stream, path string) (uint64, error) {
	if _, err := fmt.Fprintf(stream, "GET /%s\r\n", bytes.TrimLeft([]byte(path), "/")); err != nil {
		return 0, err
	}
	if err := stream.CloseWrite(); err != nil {
		return 0, err
	}
	if o.out == "" {
		return drain(stream)
	}
	file, err := os.Create(filepath.Join(o.out, filepath.Base(path)))
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(file, stream)
	if err != nil {
		_ = file.Close()
		return uint64(n), err
	}
	return uint64(n), file.Close()
}
