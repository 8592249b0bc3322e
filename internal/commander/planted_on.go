//go:build planted

package commander

import (
	"os"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// planted says that this process is to break an invariant on purpose, so that the tests can prove
// that their checker sees it (reliability rule 2). Builds with this tag are for tests alone. V2:
// each attempt sends twice.
func planted(invariant string) bool { return os.Getenv("SIMWARDEN_PLANTED") == invariant }

// plantedWay breaks V4 (what is not known is sent again without a look) and V6 (nobody waits as long
// as the carrier asks).
func plantedWay(way rules.Next) rules.Next {
	switch {
	case planted("V4") && way.State == simwarden.CommandVerifying, planted("V6") && way.Wait > 0:
		way.State, way.Wait = simwarden.CommandQueued, 10*time.Millisecond
	}
	return way
}

// plantedFacts breaks V5: what is kept is not what the decision was made from.
func plantedFacts(f rules.Facts) rules.Facts {
	if planted("V5") {
		f.NowAt = f.NowAt.Add(-time.Hour)
	}
	return f
}
