package poller_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestP5OnlyStateChecksCloseAndNotAFleetAtOnce(t *testing.T) {
	r := newRig(t)
	_, row, ids := r.account(lab.AccountSpec{Name: "cmcc", Dialect: "onelink"}, 60, time.Second)
	r.tx(func(tx *store.Tx) error {
		_, err := tx.PutErrorRule(t.Context(), store.ErrorRule{Driver: "onelink", Position: 1, Rule: carrier.Rule{Name: "all blocked", HTTPStatus: 200,
			Class: carrier.ClassRiskSuspended, Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true}})
		return err
	})
	r.fault(lab.Fault{Name: lab.OKWithError, Operations: []simwarden.Operation{simwarden.OpQueryUsage}})
	r.poller(poller.Options{Pace: quick()})
	r.until("usage was refused for more than a pass, and every state is read", func() bool {
		return r.world.FaultsInjected()[lab.OKWithError] > len(ids)+10 && r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL`) == 0
	})
	asked, err := poller.Refresh(r.ctx, r.store, r.gateway, row.ID, ids[0])
	if err != nil || len(asked) != 2 || asked[0].Err != nil || asked[1].Check != simwarden.CheckUsage || asked[1].Err == nil {
		t.Errorf("a person's reading gave %+v (error %v), want a state and no usage", asked, err)
	}
	if n := r.one(`SELECT count(*) FROM sim WHERE closed_at IS NOT NULL`); n != 0 {
		t.Fatalf("the reading of usage closed the polling of %d SIMs", n)
	}

	before := r.world.FaultsInjected()[lab.OKWithError]
	r.fault(lab.Fault{Name: lab.OKWithError, Operations: []simwarden.Operation{simwarden.OpQueryState}})
	limit := int64(rules.DefaultBrake().Limit(len(ids)))
	r.until("some are closed, and the rest is held", func() bool {
		return r.one(`SELECT count(*) FROM alert WHERE kind = 'safety_brake' AND account_id = $1`, row.ID) == 1 && r.world.FaultsInjected()[lab.OKWithError] > before+2*len(ids)
	})
	if n := r.one(`SELECT count(*) FROM sim WHERE closed_at IS NOT NULL AND closed_because LIKE 'a state check%'`); n == 0 || n > limit {
		t.Errorf("F30: %d of %d SIMs are closed by what one carrier answered, want some and at most %d", n, len(ids), limit)
	}
}
