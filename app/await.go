package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

// The pauses of AwaitDatabase.
const (
	awaitFirst = 250 * time.Millisecond
	awaitMost  = 15 * time.Second
)

// AwaitDatabase runs start, and runs it again for as long as the database is away, after pauses that
// grow: a node that starts while its database starts, or starts again, waits for it (F9). Any other
// error comes back at once, such as a wrong password or a schema that is newer than the program.
func AwaitDatabase(ctx context.Context, c clock.Clock, log *slog.Logger, start func(context.Context) error) error {
	for pause := awaitFirst; ; pause = min(2*pause, awaitMost) {
		err := start(ctx)
		if err == nil || ctx.Err() != nil || !store.IsUnavailable(err) {
			return err
		}
		log.Warn("the database does not answer; waiting for it, stop with Ctrl-C", "next_try_in", pause.String(), "error", err)
		if err := c.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
