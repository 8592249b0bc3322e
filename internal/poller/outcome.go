package poller

import (
	"errors"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

// outcome is what became of a call, for pace and for the metrics.
type outcome string

const (
	outRead     outcome = "read"
	outListed   outcome = "listed"
	outLimited  outcome = "limited"   // our limit, or the carrier's: no failure (P2)
	outStopped  outcome = "stopped"   // the account rests
	outNotFound outcome = "not_found" // never taken for terminated (F32)
	outClosed   outcome = "closed"    // the answer to a state check closes the SIM's polling (P5)
	outFailed   outcome = "failed"    // nothing is known (P2)
	outEnded    outcome = "ended"     // we are shutting down
	outPanicked outcome = "panicked"
)

// restWhenStopped is how long an account rests where the gateway does not say.
const restWhenStopped = 30 * time.Second

// outcomeOf reads the error of a call for a check of this kind. Only a state check may close polling
// (P5): what a reading of usage or of the real name is refused with leaves it open.
func outcomeOf(kind simwarden.CheckKind, err error, ending bool) (outcome, time.Duration) {
	if err == nil {
		return outRead, 0
	}
	var p panicked
	if errors.As(err, &p) {
		return outPanicked, 0
	}
	var e *carrier.Error
	if !errors.As(err, &e) {
		if ending {
			return outEnded, 0
		}
		return outFailed, 0
	}
	switch {
	case e.Class == carrier.ClassLimited, e.Class == carrier.ClassThrottled:
		return outLimited, e.RetryAfter
	case e.Class == carrier.ClassStopped, e.Class == carrier.ClassAuth:
		if e.RetryAfter <= 0 {
			return outStopped, restWhenStopped
		}
		return outStopped, min(e.RetryAfter, rules.MaxRetryAfter)
	case ending:
		return outEnded, 0
	case e.ClosePolling && kind == simwarden.CheckState:
		return outClosed, 0
	case e.Class == carrier.ClassNotFound:
		return outNotFound, 0
	}
	return outFailed, e.RetryAfter
}
