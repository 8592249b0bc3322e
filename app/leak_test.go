package app_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/soracom"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// openFiles counts this process's file descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// eventually waits until it is so; what it waits for is brought about by goroutines of the node.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("it did not come to be so: %s", what)
		}
	}
}

// TestF6AShutdownLeavesNothingBehind starts and stops whole nodes with a carrier that answers, one
// that does not, and requests under way.
func TestF6AShutdownLeavesNothingBehind(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	url := storetest.URL(t, store.Migrate)
	s, err := store.Open(ctx, store.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	world := lab.New(lab.Config{Seed: 3})
	server, err := world.Serve(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		world.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, name := range []string{"alive", "dead"} {
		at, err := world.AddAccount(lab.AccountSpec{Name: name, Dialect: "soracom"})
		if err != nil {
			t.Fatal(err)
		}
		iccids, err := at.Populate(lab.Population{Count: 30, ActiveShare: 1, Age: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.InTx(ctx, func(tx *store.Tx) error {
			row, err := tx.AddAccount(ctx, store.Account{Name: name, Driver: "soracom", BaseURL: at.BaseURL(server.URL), StateEvery: time.Second, UsageEvery: time.Second})
			if err != nil {
				return err
			}
			text, err := json.Marshal(at.Credentials())
			if err != nil {
				return err
			}
			sealed, err := ring.Seal("account", strconv.FormatInt(int64(row.ID), 10), text)
			if err != nil {
				return err
			}
			if err := tx.SetCredential(ctx, row.ID, sealed); err != nil {
				return err
			}
			sims := make([]store.NewSIM, len(iccids))
			for i, iccid := range iccids {
				sims[i] = store.NewSIM{ICCID: simwarden.MustParseICCID(iccid), Raw: iccid}
			}
			_, err = tx.AddSIMs(ctx, row, sims, 0)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := world.SetFault(lab.Fault{Name: lab.Slow, Seconds: 600, Account: "dead"}); err != nil {
		t.Fatal(err)
	}
	pace := rules.DefaultPace()
	pace.FirstSpread = 0
	node := func() {
		a, err := app.New(app.Config{Store: s, Keyring: ring, AllowLoopback: true, Holder: "node", Pace: &pace})
		if err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- a.Run(run) }()
		before := world.Requests()
		eventually(t, "the node calls its carriers", func() bool { return world.Requests() > before+5 })
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	}
	node() // pools and the lab's server have their connections now
	goroutines, files := goleak.IgnoreCurrent(), openFiles(t)
	for range 3 {
		node()
	}
	if err := goleak.Find(goroutines, goleak.IgnoreAnyFunction("net/http.(*conn).serve"), // of the lab, until it sees the end
		goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck")); err != nil {
		t.Errorf("a node that has ended left goroutines behind: %v", err)
	}
	eventually(t, "no more files are open than after the first node", func() bool { return openFiles(t) <= files+4 }) // a pool may grow
}
