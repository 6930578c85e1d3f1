package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/sync/errgroup"
)

// h3 starts HTTP/3 on a connection.
func h3(conn *quic.Conn) *http3.ClientConn {
	// The other peers' clients ask for no compression.
	transport := http3.Transport{DisableCompression: true}
	return transport.NewClientConn(conn)
}

// get makes one request and hands its content to into.
func (o *clientOptions) get(ctx context.Context, conn *http3.ClientConn, path string, into io.Writer) error {
	method := http.MethodGet
	if o.testCase == "zerortt" {
		method = http3.MethodGet0RTT
	}
	url := fmt.Sprintf("https://%s/%s", o.name, strings.TrimLeft(path, "/"))
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	response, err := conn.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s for %s", response.Status, path)
	}
	_, err = io.Copy(into, response.Body)
	return err
}

// fetchHTTP3 gets every path on a stream of its own.
func (o *clientOptions) fetchHTTP3(ctx context.Context, conn *quic.Conn, paths []string, p *progress) error {
	web := h3(conn)
	group, ctx := errgroup.WithContext(ctx)
	for _, path := range paths {
		group.Go(func() error {
			if o.out == "" {
				return o.get(ctx, web, path, counter{p})
			}
			file, err := os.Create(filepath.Join(o.out, filepath.Base(path)))
			if err != nil {
				return err
			}
			if err := o.get(ctx, web, path, io.MultiWriter(file, counter{p})); err != nil {
				_ = file.Close()
				return err
			}
			return file.Close()
		})
	}
	return group.Wait()
}

// manyRequests makes the same request again and again over some connections.
func (c *caller) manyRequests() error {
	group, ctx := errgroup.WithContext(context.Background())
	var conns []*http3.ClientConn
	for range c.connections {
		conn, err := c.connect(ctx, false)
		if err != nil {
			return err
		}
		conns = append(conns, h3(conn))
	}
	var left atomic.Int64
	left.Store(c.requests)
	moved := newProgress(c.clientOptions, nil)
	var lock sync.Mutex
	var times []time.Duration
	start := time.Now()
	for _, conn := range conns {
		for range c.concurrency {
			group.Go(func() error {
				var own []time.Duration
				for left.Add(-1) >= 0 {
					begin := time.Now()
					if err := c.get(ctx, conn, c.paths[0], counter{moved}); err != nil {
						return err
					}
					own = append(own, time.Since(begin))
				}
				lock.Lock()
				defer lock.Unlock()
				times = append(times, own...)
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	report{
		"requests":       c.requests,
		"bytes":          moved.moved.Load(),
		"seconds":        seconds,
		"requests_per_s": float64(c.requests) / max(seconds, 1e-9),
		"latency_us":     latency(times),
	}.print()
	return nil
}

// latency sums up the times of requests: the microseconds within which half of them were complete, and 99 of 100.
func latency(times []time.Duration) map[string]float64 {
	slices.Sort(times)
	rank := func(percent int) float64 {
		index := (len(times)*percent+99)/100 - 1
		return float64(times[index].Nanoseconds()) / 1e3
	}
	return map[string]float64{"p50": rank(50), "p99": rank(99)}
}
