package store

import (
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store/storetest"
)

// A private Postgres goes by the same clock, so that only the monotonic reading tells of a step (V13).
func TestV13AStepAgainstTheMonotonicReadingStopsLapsing(t *testing.T) {
	for _, row := range []struct {
		says string
		wall time.Duration // by which the time of day moves
		mono time.Duration // that has passed
		want string
	}{
		{"an hour passes", time.Hour, time.Hour, ""},
		{"NTP moves it by a second", time.Hour + time.Second, time.Hour, ""},
		{"it steps by five minutes, which is within the bound", time.Second + 5*time.Minute, time.Second, ""},
		{"it steps ahead by a little more", 2*time.Second + 5*time.Minute, time.Second, "stepped by 5m1s"},
		{"it steps ahead by a day", 24 * time.Hour, 0, "stepped by 24h0m0s"},
		{"it steps back by a day", -24 * time.Hour, 0, "stepped by -24h0m0s"},
	} {
		t.Run(row.says, func(t *testing.T) {
			s, err := Open(t.Context(), Options{URL: storetest.URL(t, Migrate), ClockBound: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			wall, mono := s.watch.last.Add(row.wall), s.watch.passed+row.mono
			s.watch.read = func() (time.Time, time.Duration) { return wall, mono }
			var because string
			err = s.InTx(t.Context(), func(tx *Tx) (err error) {
				because, err = tx.ClockHolds(t.Context())
				return err
			})
			if err != nil || !strings.Contains(because, row.want) || row.want == "" && because != "" {
				t.Fatalf("held because of %q (%v), want %q", because, err, row.want)
			}
			open, err := s.Guards(t.Context(), true, 10)
			if err != nil || len(open) > 0 != (row.want != "") {
				t.Errorf("%d guards are open (%v)", len(open), err)
			}
		})
	}
}
