package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// network is the way to a database that can be away.
type network struct {
	mu   sync.Mutex
	away bool
	open []net.Conn
}

func (n *network) dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		return nil, &net.OpError{Op: "dial", Net: kind, Err: errors.New("nobody listens")}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, addr)
	if err == nil {
		n.open = append(n.open, conn)
	}
	return conn, err
}

func (n *network) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
	for _, conn := range n.open {
		if away {
			_ = conn.Close() // those that were closed already are closed twice
		}
	}
}

func TestF9ANodeThatLosesItsDatabaseWhileItStartsWaitsForIt(t *testing.T) {
	way, log := &network{}, &storetest.Log{}
	s, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, store.Migrate), Dial: way.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(app.Config{Store: s, Keyring: ring, Holder: "a", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	way.set(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	eventually(t, "it says that it waits", func() bool { return strings.Contains(log.String(), "the database does not answer; waiting for it") })
	if a.Ready(ctx) == nil {
		t.Error("it says that it is ready")
	}
	way.set(false)
	eventually(t, "it runs", func() bool { return a.Ready(ctx) == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestWhatWaitingDoesNotMendEndsTheStartAtOnce(t *testing.T) {
	for _, wrong := range []error{store.ErrNewerDatabase, store.ErrOldDatabase, errors.New("a driver's rule is wrong")} {
		calls := 0
		err := app.AwaitDatabase(t.Context(), clock.System(), slog.New(slog.DiscardHandler), func(context.Context) error {
			calls++
			return wrong
		})
		if !errors.Is(err, wrong) || calls != 1 {
			t.Errorf("%d tries, then %v; want %v at once", calls, err, wrong)
		}
	}
}
