//go:build !planted

package fault

// Planted says whether this process is to break an invariant on purpose. In this build it never is, and
// the compiler leaves out what hangs on it.
func Planted(string) bool { return false }
