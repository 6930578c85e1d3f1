// Command peer-connect-ip-go is connect-ip-go as a peer of the tunnel: see peers/README.md for the contract.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

func run(args []string) error {
	// The stack would log what a system does not allow; stderr is for failures.
	if err := os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true"); err != nil {
		return err
	}
	if len(args) > 0 {
		switch args[0] {
		case "server":
			return serve(args[1:])
		case "client":
			return visit(args[1:])
		}
	}
	return errors.New("usage: server|client --flags; see peers/README.md")
}

// ending yields once, when SIGTERM arrives or stdin ends: a peer never outlives the process that started it.
func ending() <-chan os.Signal {
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end <- syscall.SIGHUP
	}()
	return end
}

// tell prints one JSON object on one line of stdout: what a peer observed.
func tell(report any) error {
	return json.NewEncoder(os.Stdout).Encode(report)
}
