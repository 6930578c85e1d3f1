package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitUnsupported is the status for a case that the stack cannot do, as in the interop runner's contract.
const exitUnsupported = 127

// errUnsupported marks what golang.org/x/net/quic has no feature for.
var errUnsupported = errors.New("unsupported")

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " "))
	if errors.Is(err, errUnsupported) {
		os.Exit(exitUnsupported)
	}
	os.Exit(1)
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: server|client --flags; see peers/README.md")
	}
	switch args[0] {
	case "server":
		options, err := parseServer(args[1:])
		if err != nil {
			return err
		}
		if err := options.pin(); err != nil {
			return err
		}
		return serve(options)
	case "client":
		options, err := parseClient(args[1:])
		if err != nil {
			return err
		}
		if err := options.pin(); err != nil {
			return err
		}
		return options.run()
	}
	return fmt.Errorf("unknown command %s", args[0])
}

// pin keeps every thread of this process, and those they will start, on one CPU if that is asked for.
func (c *common) pin() error {
	if c.oneCore < 0 {
		return nil
	}
	runtime.GOMAXPROCS(1)
	var set unix.CPUSet
	set.Set(c.oneCore)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil {
			return err
		}
	}
	return nil
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

// report is one JSON object on one line of stdout: what a peer observed.
type report map[string]any

func (r report) print() {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		r["cpu_seconds"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	}
	line, err := json.Marshal(r)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Println(string(line))
}
