module anabranch/peers/qpack/quic-go

go 1.24

require github.com/quic-go/qpack v0.6.0

require golang.org/x/net v0.28.0 // indirect
