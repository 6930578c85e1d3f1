package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// observer keeps what the stack's own events say and its interface does not.
type observer struct {
	localKeyUpdates    atomic.Uint64
	remoteKeyUpdates   atomic.Uint64
	versionNegotiation atomic.Bool
	retry              atomic.Bool
	ecn                atomic.Value
}

func (o *observer) tracer(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return o }

// AddProducer implements qlogwriter.Trace.
func (o *observer) AddProducer() qlogwriter.Recorder { return o }

// SupportsSchemas implements qlogwriter.Trace.
func (o *observer) SupportsSchemas(schema string) bool { return schema == qlog.EventSchema }

// Close implements qlogwriter.Recorder.
func (o *observer) Close() error { return nil }

// RecordEvent implements qlogwriter.Recorder.
func (o *observer) RecordEvent(event qlogwriter.Event) {
	switch event := event.(type) {
	case qlog.KeyUpdated:
		// Both directions' keys change together; counting the client's is counting updates.
		if event.KeyType == qlog.KeyTypeClient1RTT && event.Trigger == qlog.KeyUpdateLocal {
			o.localKeyUpdates.Add(1)
		}
		if event.KeyType == qlog.KeyTypeClient1RTT && event.Trigger == qlog.KeyUpdateRemote {
			o.remoteKeyUpdates.Add(1)
		}
	case qlog.VersionNegotiationReceived:
		o.versionNegotiation.Store(true)
	case qlog.PacketReceived:
		if event.Header.PacketType == qlog.PacketTypeRetry {
			o.retry.Store(true)
		}
	case qlog.ECNStateUpdated:
		o.ecn.Store(string(event.State))
	}
}

// swappable is a socket whose local port can change under the stack: a NAT rebinding.
type swappable struct {
	mutex   sync.RWMutex
	current *net.UDPConn
}

func newSwappable() (*swappable, error) {
	socket, err := net.ListenUDP("udp", nil)
	return &swappable{current: socket}, err
}

func (s *swappable) socket() *net.UDPConn {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return s.current
}

// swap replaces the socket by a fresh one.
func (s *swappable) swap() error {
	fresh, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	old := s.current
	s.current = fresh
	s.mutex.Unlock()
	return old.Close()
}

// ReadFrom implements net.PacketConn.
func (s *swappable) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		socket := s.socket()
		n, from, err := socket.ReadFrom(b)
		if err == nil || socket == s.socket() {
			return n, from, err
		}
	}
}

// WriteTo implements net.PacketConn. A write that meets the swap is lost, as on a network.
func (s *swappable) WriteTo(b []byte, to net.Addr) (int, error) {
	socket := s.socket()
	n, err := socket.WriteTo(b, to)
	if err != nil && socket != s.socket() {
		return len(b), nil
	}
	return n, err
}

// Close implements net.PacketConn.
func (s *swappable) Close() error { return s.socket().Close() }

// LocalAddr implements net.PacketConn.
func (s *swappable) LocalAddr() net.Addr { return s.socket().LocalAddr() }

// SetDeadline implements net.PacketConn.
func (s *swappable) SetDeadline(t time.Time) error { return s.socket().SetDeadline(t) }

// SetReadDeadline implements net.PacketConn.
func (s *swappable) SetReadDeadline(t time.Time) error { return s.socket().SetReadDeadline(t) }

// SetWriteDeadline implements net.PacketConn.
func (s *swappable) SetWriteDeadline(t time.Time) error { return s.socket().SetWriteDeadline(t) }
