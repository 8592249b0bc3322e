package poller_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestP1AShorterIntervalTakesEffectWhileTheLongOneRuns(t *testing.T) {
	r := newRig(t)
	at, row, _ := r.account(lab.AccountSpec{Name: "slow", Dialect: "soracom"}, 20, time.Hour)
	r.poller(poller.Options{})
	r.until("every SIM's state is read once", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL`) == 0
	})
	if err := at.SetState(at.ICCIDs()[0], simwarden.StateTerminated); err != nil {
		t.Fatal(err)
	}
	r.tx(func(tx *store.Tx) error { return tx.SetPolling(r.ctx, row.ID, time.Second, time.Hour, time.Hour) })
	r.until("the list is read again at the new interval", func() bool { return r.differ(at, row) == 0 })
}
