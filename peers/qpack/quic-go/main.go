// The QPACK of quic-go, from file to file; the formats are those of crates/http3/examples/qpack_interop.rs. It has no
// dynamic table: the capacity and the rest of the arguments are not looked at.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/quic-go/qpack"
)

func encode(qif []byte) ([]byte, error) {
	var out bytes.Buffer
	for index, list := range strings.Split(strings.TrimSpace(string(qif)), "\n\n") {
		var section bytes.Buffer
		encoder := qpack.NewEncoder(&section)
		for _, line := range strings.Split(list, "\n") {
			name, value, found := strings.Cut(line, "\t")
			if !found {
				return nil, fmt.Errorf("no tab in %q", line)
			}
			if err := encoder.WriteField(qpack.HeaderField{Name: name, Value: value}); err != nil {
				return nil, err
			}
		}
		if err := encoder.Close(); err != nil {
			return nil, err
		}
		out.Write(binary.BigEndian.AppendUint64(nil, uint64(index+1)))
		out.Write(binary.BigEndian.AppendUint32(nil, uint32(section.Len())))
		out.Write(section.Bytes())
	}
	return out.Bytes(), nil
}

func decode(encoded []byte) ([]byte, error) {
	var out bytes.Buffer
	decoder := qpack.NewDecoder()
	for len(encoded) >= 12 {
		stream, length := binary.BigEndian.Uint64(encoded), binary.BigEndian.Uint32(encoded[8:])
		if stream == 0 || uint64(len(encoded)) < 12+uint64(length) {
			return nil, errors.New("an encoder stream, or a record that is cut off")
		}
		next := decoder.Decode(encoded[12 : 12+length])
		for {
			field, err := next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "%s\t%s\n", field.Name, field.Value)
		}
		out.WriteString("\n")
		encoded = encoded[12+length:]
	}
	return out.Bytes(), nil
}

func main() {
	work := map[string]func([]byte) ([]byte, error){"encode": encode, "decode": decode}[os.Args[1]]
	from, err := os.ReadFile(os.Args[2])
	if err == nil {
		from, err = work(from)
	}
	if err == nil {
		err = os.WriteFile(os.Args[3], from, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
