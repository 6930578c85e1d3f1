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

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"
)

// pattern is what performance streams carry; it stays in the second-level cache.
var pattern = bytes.Repeat([]byte{0x5a}, 64<<10)

// progress counts moved bytes and does something once, in the middle of the work.
type progress struct {
	moved     atomic.Uint64
	threshold uint64
	act       func()
}

// newProgress watches the work of o. The middle of a fetch, whose length is not known, is its first byte.
func newProgress(o *clientOptions, act func()) *progress {
	p := &progress{threshold: 1, act: act}
	if o.alpn == "perf" {
		p.threshold = max((o.download+o.upload)/2, 1)
	}
	return p
}

func (p *progress) add(n int) {
	if p == nil {
		return
	}
	after := p.moved.Add(uint64(n))
	if before := after - uint64(n); p.act != nil && before < p.threshold && after >= p.threshold {
		p.act()
	}
}

// sendBytes writes count bytes of the pattern.
func sendBytes(stream *quic.Stream, count uint64, p *progress) error {
	for count > 0 {
		n, err := stream.Write(pattern[:min(count, uint64(len(pattern)))])
		if err != nil {
			return err
		}
		p.add(n)
		count -= uint64(n)
	}
	return nil
}

// drain reads and drops everything up to the end of the stream; it returns how much that was.
func drain(stream *quic.Stream, p *progress) (uint64, error) {
	buffer := make([]byte, len(pattern))
	var total uint64
	for {
		n, err := stream.Read(buffer)
		total += uint64(n)
		p.add(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// share is the part of total that stream index of count carries.
func share(total, index, count uint64) uint64 {
	if index < total%count {
		return total/count + 1
	}
	return total / count
}

// work does what o asks for on conn; only are the paths to fetch.
func (o *clientOptions) work(ctx context.Context, conn *quic.Conn, only []string, p *progress) error {
	if o.alpn == "h3" {
		return o.fetchHTTP3(ctx, conn, only, p)
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.alpn == "hq-interop" {
		for _, path := range only {
			// Waits for credit when the server allows fewer streams than there are paths.
			stream, err := conn.OpenStreamSync(ctx)
			if err != nil {
				return err
			}
			group.Go(func() error { return o.fetch(stream, path, p) })
		}
		return group.Wait()
	}
	for index := range o.streams {
		stream, err := conn.OpenStreamSync(ctx)
		if err != nil {
			return err
		}
		group.Go(func() error {
			return perf(stream, share(o.download, index, o.streams), share(o.upload, index, o.streams), p)
		})
	}
	return group.Wait()
}

func perf(stream *quic.Stream, download, upload uint64, p *progress) error {
	if _, err := stream.Write(binary.BigEndian.AppendUint64(nil, download)); err != nil {
		return err
	}
	var group errgroup.Group
	group.Go(func() error {
		if err := sendBytes(stream, upload, p); err != nil {
			return err
		}
		return stream.Close()
	})
	received, err := drain(stream, p)
	if err != nil {
		return err
	}
	if received != download {
		return fmt.Errorf("asked for %d bytes, got %d", download, received)
	}
	return group.Wait()
}

func (o *clientOptions) fetch(stream *quic.Stream, path string, p *progress) error {
	if _, err := fmt.Fprintf(stream, "GET /%s\r\n", bytes.TrimLeft([]byte(path), "/")); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	if o.out == "" {
		_, err := drain(stream, p)
		return err
	}
	file, err := os.Create(filepath.Join(o.out, filepath.Base(path)))
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(file, counter{p}), stream); err != nil {
		return err
	}
	return file.Close()
}

// counter is a writer that only tells progress how much went through.
type counter struct{ *progress }

func (c counter) Write(b []byte) (int, error) {
	c.add(len(b))
	return len(b), nil
}
