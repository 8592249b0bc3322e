//go:build planted

package fault

import "os"

// PlantedEnv names in the environment the invariant to break: "V1".
const PlantedEnv = "SIMWARDEN_PLANTED"

// Planted says whether this process is to break an invariant on purpose, so that the tests can prove that
// their checker sees it (reliability rule 2). Builds with this tag are for tests alone.
func Planted(invariant string) bool { return os.Getenv(PlantedEnv) == invariant }
