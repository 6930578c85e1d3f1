package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// web answers HTTP/3: bytes of the pattern for /bytes/N, else a file below its root.
type web struct{ root string }

// serve answers one connection's requests until it ends.
func (w web) serve(conn *quic.Conn) {
	server := http3.Server{Handler: w}
	_ = server.ServeQUICConn(conn)
}

// ServeHTTP implements http.Handler.
func (w web) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	head := response.Header()
	head["Date"] = nil // the other peers send none
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Server", "quic-go")
	content, length, err := w.content(request.URL.Path)
	if err != nil {
		head.Set("Content-Length", "0")
		response.WriteHeader(http.StatusNotFound)
		return
	}
	defer content.Close()
	head.Set("Content-Length", strconv.FormatInt(length, 10))
	// A client that goes away is its own test's business.
	_, _ = io.Copy(response, content)
}

func (w web) content(path string) (io.ReadCloser, int64, error) {
	if digits, ok := strings.CutPrefix(path, "/bytes/"); ok {
		count, err := strconv.ParseUint(digits, 10, 63)
		return &patternReader{left: int64(count)}, int64(count), err
	}
	path = strings.TrimPrefix(path, "/")
	if w.root == "" || !filepath.IsLocal(path) {
		return nil, 0, fmt.Errorf("no such path: %s", path)
	}
	file, err := os.Open(filepath.Join(w.root, path))
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("not a file: %s", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// patternReader reads as the pattern, again and again; it writes itself without a copy.
type patternReader struct{ left int64 }

func (p *patternReader) next(limit int) []byte {
	piece := pattern[:min(p.left, int64(limit), int64(len(pattern)))]
	p.left -= int64(len(piece))
	return piece
}

// Read implements io.Reader.
func (p *patternReader) Read(b []byte) (int, error) {
	if p.left <= 0 {
		return 0, io.EOF
	}
	return copy(b, p.next(len(b))), nil
}

// WriteTo implements io.WriterTo.
func (p *patternReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for p.left > 0 {
		n, err := w.Write(p.next(len(pattern)))
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Close implements io.Closer.
func (p *patternReader) Close() error { return nil }
