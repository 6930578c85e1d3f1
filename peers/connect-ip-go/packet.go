package main

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// maxPacket is the length of the longest IP packet, in bytes.
const maxPacket = 65_535

const (
	protocolICMP   = 1
	protocolUDP    = 17
	protocolICMPv6 = 58
)

// hops is the hop limit of all packets.
const hops = 64

// parsed is a packet as far as this program understands it: one without options and extension headers.
type parsed struct {
	source, target netip.Addr
	protocol       byte
	// payload is what follows the IP header. Of later fragments it has no other header.
	payload []byte
	// more says whether fragments follow, and offset where this one belongs, in bytes.
	more   bool
	offset int
}

// parse reads a packet. Returns false if it has another shape.
func parse(packet []byte) (parsed, bool) {
	switch {
	case len(packet) >= ipv4.HeaderLen && packet[0] == 0x45:
		fragment := binary.BigEndian.Uint16(packet[6:])
		return parsed{
			source: netip.AddrFrom4([4]byte(packet[12:])), target: netip.AddrFrom4([4]byte(packet[16:])),
			protocol: packet[9], payload: packet[ipv4.HeaderLen:],
			more: fragment&0x2000 != 0, offset: 8 * int(fragment&0x1fff),
		}, true
	case len(packet) >= ipv6.HeaderLen && packet[0]>>4 == 6:
		p := parsed{
			source: netip.AddrFrom16([16]byte(packet[8:])), target: netip.AddrFrom16([16]byte(packet[24:])),
			protocol: packet[6], payload: packet[ipv6.HeaderLen:],
		}
		const fragmentHeader, fragmentLen = 44, 8
		if p.protocol == fragmentHeader && len(p.payload) >= fragmentLen {
			field := binary.BigEndian.Uint16(p.payload[2:])
			p.protocol, p.more, p.offset = p.payload[0], field&1 != 0, int(field&^7)
			p.payload = p.payload[fragmentLen:]
		}
		return p, true
	}
	return parsed{}, false
}

// turn makes a packet the answer to itself: the reply to an echo request, or a UDP datagram that goes back. It returns false for
// any other packet. Checksums stay valid where two fields change places.
func turn(packet []byte) bool {
	p, ok := parse(packet)
	if !ok {
		return false
	}
	if p.offset == 0 {
		switch {
		case p.protocol == protocolUDP && len(p.payload) >= 8:
			swap(p.payload[0:2], p.payload[2:4])
		case p.protocol == protocolICMP && len(p.payload) >= 8 && p.payload[0] == byte(ipv4.ICMPTypeEcho):
			become(p.payload, byte(ipv4.ICMPTypeEchoReply))
		case p.protocol == protocolICMPv6 && len(p.payload) >= 8 && p.payload[0] == byte(ipv6.ICMPTypeEchoRequest):
			become(p.payload, byte(ipv6.ICMPTypeEchoReply))
		default:
			return false
		}
	}
	if p.source.Is4() {
		swap(packet[12:16], packet[16:20])
		packet[8] = hops
	} else {
		swap(packet[8:24], packet[24:40])
		packet[7] = hops
	}
	return true
}

func swap(one, other []byte) {
	for at := range one {
		one[at], other[at] = other[at], one[at]
	}
}

// become changes the type of an ICMP message, and its checksum with it (RFC 1624).
func become(message []byte, kind byte) {
	sum := uint32(^binary.BigEndian.Uint16(message[2:]))
	sum += uint32(^(uint16(message[0]) << 8)) + uint32(kind)<<8
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	message[0] = kind
	binary.BigEndian.PutUint16(message[2:], ^uint16(sum))
}

// echoRequest returns an ICMP or ICMPv6 echo request.
func echoRequest(source, target netip.Addr, number int) ([]byte, error) {
	message := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 4711, Seq: number, Data: []byte("anabranch")}}
	if source.Is4() {
		content, err := message.Marshal(nil)
		return withHeader(source, target, protocolICMP, content), err
	}
	message.Type = ipv6.ICMPTypeEchoRequest
	content, err := message.Marshal(icmp.IPv6PseudoHeader(source.AsSlice(), target.AsSlice()))
	return withHeader(source, target, protocolICMPv6, content), err
}

// datagram returns a packet with a UDP datagram.
func datagram(source, target netip.AddrPort, payload []byte) []byte {
	content := binary.BigEndian.AppendUint16(nil, source.Port())
	content = binary.BigEndian.AppendUint16(content, target.Port())
	content = binary.BigEndian.AppendUint16(content, uint16(8+len(payload)))
	content = append(append(content, 0, 0), payload...)
	binary.BigEndian.PutUint16(content[6:], udpSum(source.Addr(), target.Addr(), content))
	return withHeader(source.Addr(), target.Addr(), protocolUDP, content)
}

// udpSum returns the checksum of a datagram whose checksum field is zero.
func udpSum(source, target netip.Addr, content []byte) uint16 {
	pseudo := append(append(source.AsSlice(), target.AsSlice()...), 0, protocolUDP)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(content)))
	sum := sumOf(append(pseudo, content...))
	if sum == 0 {
		return 0xffff
	}
	return sum
}

func sumOf(content []byte) uint16 {
	var sum uint32
	for at, value := range content {
		sum += uint32(value) << (8 * (1 - at%2))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// withHeader returns a packet that no router may fragment.
func withHeader(source, target netip.Addr, protocol byte, content []byte) []byte {
	if source.Is6() {
		header := make([]byte, ipv6.HeaderLen, ipv6.HeaderLen+len(content))
		header[0], header[6], header[7] = 6<<4, protocol, hops
		binary.BigEndian.PutUint16(header[4:], uint16(len(content)))
		copy(header[8:], source.AsSlice())
		copy(header[24:], target.AsSlice())
		return append(header, content...)
	}
	header := make([]byte, ipv4.HeaderLen, ipv4.HeaderLen+len(content))
	const dontFragment = 0x4000
	header[0], header[8], header[9] = 0x45, hops, protocol
	binary.BigEndian.PutUint16(header[2:], uint16(ipv4.HeaderLen+len(content)))
	binary.BigEndian.PutUint16(header[6:], dontFragment)
	copy(header[12:], source.AsSlice())
	copy(header[16:], target.AsSlice())
	binary.BigEndian.PutUint16(header[10:], sumOf(header))
	return append(header, content...)
}
