package lab_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden/lab"
)

// TestLogHoldsUnderEveryFaultAtOnce drives the lab from many goroutines with every fault on, and
// then holds the log against the truth: each request has its line, and each SIM's state and count
// of executions is what the lines say.
func TestLogHoldsUnderEveryFaultAtOnce(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim", Limits: lab.Limits{Windows: []lab.Limit{{Calls: 20, Window: time.Hour}}, OnlyLog: true}})
	iccids, err := r.account.Populate(lab.Population{Count: 40, ActiveShare: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lab.FaultNames() {
		if name != lab.Drip && name != lab.Flood { // bytes without end: they have tests of their own
			r.fault(lab.Fault{Name: name, Probability: 0.04, Seconds: 2})
		}
	}
	const workers, each = 8, 120
	stop := make(chan struct{})
	var ticking, working sync.WaitGroup
	ticking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default: // time passes as soon as somebody waits for it
				if _, waiting := r.clock.NextAt(); waiting {
					r.clock.Advance(100 * time.Millisecond)
				}
			}
		}
	})
	for worker := range workers {
		working.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for range each {
				key := r.truth(iccids[random.IntN(len(iccids))]).Key
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				switch random.IntN(4) {
				case 0:
					_, _ = r.do(ctx, http.MethodGet, "/v1/Sims?PageSize=7", "")
				case 1:
					_, _ = r.do(ctx, http.MethodGet, "/v1/Sims/"+key, "")
				case 2:
					_, _ = r.do(ctx, http.MethodPost, "/v1/Sims/"+key, "Status=inactive")
				default:
					_, _ = r.do(ctx, http.MethodPost, "/v1/Sims/"+key, "Status=active")
				}
				cancel()
			}
		})
	}
	working.Wait()
	close(stop)
	ticking.Wait()
	r.world.ClearFaults()
	r.clock.Advance(time.Hour)
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}

	executions := map[string]int{}
	seqs := map[uint64]bool{}
	conns := map[uint64]bool{}
	for _, line := range r.world.LogLines() {
		if line.Executed {
			executions[line.ICCID]++
		}
		if line.Kind == lab.KindExecution {
			continue
		}
		if seqs[line.Seq] {
			t.Errorf("request %d has two lines", line.Seq)
		}
		seqs[line.Seq] = true
		conns[line.Conn] = true
		if line.AnsweredAt.IsZero() == line.ClosedAt.IsZero() || line.Answer == "" || (line.Status == 0) != (line.Answer == lab.AnswerNone) {
			t.Errorf("a line that cannot be: %+v", line)
		}
	}
	if len(seqs) != r.world.Requests() || len(seqs) < workers*each {
		t.Errorf("%d requests have a line, %d arrived, %d were sent", len(seqs), r.world.Requests(), workers*each)
	}
	if len(conns) < 2 || conns[0] {
		t.Errorf("%d connections are told apart", len(conns))
	}
	for _, iccid := range iccids {
		if truth := r.truth(iccid); truth.Executions != executions[iccid] {
			t.Errorf("V2: sim %s was changed %d times, the log has %d", iccid, truth.Executions, executions[iccid])
		}
	}
	for _, name := range []string{lab.ActThenReset, lab.ActThenHang, lab.LieOK, lab.StaleRead, lab.ListShort} {
		if r.world.FaultsInjected()[name] == 0 {
			t.Errorf("%s never struck: %v", name, r.world.FaultsInjected())
		}
	}
	if r.world.LimitViolations() == 0 {
		t.Error("no limit was exceeded")
	}
}
