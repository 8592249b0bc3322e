package onelink

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// firstGroup is how many SIMs the first group has; each further one has twice as many as the one
// before, so that small accounts have several groups and large ones not many.
const firstGroup = 40

// groupRange gives the positions of a group's SIMs in the account's list, from first to before end.
func groupRange(group int) (first, end int) {
	return firstGroup * (1<<group - 1), firstGroup * (1<<(group+1) - 1)
}

// groups is how many groups an account of n SIMs has.
func groups(n int) int {
	if n <= 0 {
		return 0
	}
	return bits.Len(uint((n-1)/firstGroup + 1))
}

func (s *session) groupPrefix() string { return fmt.Sprintf("35%08d", s.seed%1e8) }

func (s *session) groupID(group int) string { return fmt.Sprintf("%s%06d", s.groupPrefix(), group) }

func (s *session) groupNumber(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, s.groupPrefix())
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), ok && err == nil && int(n) < groups(s.account.Len())
}
