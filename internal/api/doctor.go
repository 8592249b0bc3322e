package api

import (
	"context"
	"errors"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

// Doctor is what a health check of the installation looks at. It judges nothing.
type Doctor struct {
	At              time.Time               `json:"at"` // this machine's clock, UTC
	SchemaWanted    int64                   `json:"schema_wanted"`
	SchemaFound     int64                   `json:"schema_found"`
	DatabaseVersion string                  `json:"database_version"`
	Partitions      []store.PartitionReport `json:"partitions"`
	// ClockAheadSeconds is how far the database's clock is ahead of this machine's, negative where
	// it is behind; it is known to within ClockErrorSeconds.
	ClockAheadSeconds float64           `json:"clock_ahead_seconds"`
	ClockErrorSeconds float64           `json:"clock_error_seconds"`
	PollShards        store.ShardReport `json:"poll_shards"`
	Evaluations       store.Backlog     `json:"evaluations"`
	OldestOpen        *store.Command    `json:"oldest_open_command,omitempty"`
	Alerts            int64             `json:"alerts"`
	Retention         RetentionReport   `json:"retention"`
}

// Doctor gathers the facts.
func (s *Service) Doctor(ctx context.Context) (Doctor, error) {
	d := Doctor{SchemaWanted: store.SchemaVersion()}
	var err error
	if d.SchemaFound, err = s.Store.DatabaseVersion(ctx); err != nil {
		return d, err
	}
	before := s.Clock.Now()
	server, err := s.Store.Server(ctx)
	if err != nil {
		return d, err
	}
	// The database looked at its clock somewhere within the round trip.
	half := s.Clock.Now().Sub(before) / 2
	d.At, d.DatabaseVersion = s.Store.Now(), server.Version
	d.ClockAheadSeconds, d.ClockErrorSeconds = server.Now.Sub(before.Add(half)).Seconds(), half.Seconds()
	if d.Partitions, err = s.Store.Partitions(ctx, d.At); err != nil {
		return d, err
	}
	if d.PollShards, err = s.Store.ShardsHeld(ctx); err != nil {
		return d, err
	}
	if d.Evaluations, err = s.Store.EvaluationBacklog(ctx, d.At); err != nil {
		return d, err
	}
	oldest, err := s.Store.OldestOpenCommand(ctx)
	switch {
	case err == nil:
		d.OldestOpen = &oldest
	case !errors.Is(err, store.ErrNotFound):
		return d, err
	}
	if d.Retention, err = s.Retention(ctx); err != nil {
		return d, err
	}
	d.Alerts, err = s.Store.CountAlerts(ctx)
	return d, err
}
