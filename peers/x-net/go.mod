module peer-x-net

go 1.26.8

require (
	golang.org/x/net v0.62.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
)

require golang.org/x/crypto v0.58.0 // indirect
