// Command simwarden keeps every SIM of an IoT fleet in the state it should be in.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/simwarden/simwarden/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
