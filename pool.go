package simwarden

// PoolID is the id of a pool. Zero is "none".
type PoolID int64

// PoolMemberID is the id of one asset's stay in a pool. Zero is "none".
type PoolMemberID int64

// PoolPolicy says which members of a pool stop when its allowance is used up (L6). A member that has data
// of its own left never does.
type PoolPolicy string

// The policies of a pool.
const (
	// PoolAll stops all members.
	PoolAll PoolPolicy = "all"
	// PoolOverCap stops those that have drawn their own cap; the others go on until they have.
	PoolOverCap PoolPolicy = "over_cap"
)

// PoolPolicies lists every policy of a pool.
func PoolPolicies() []PoolPolicy { return []PoolPolicy{PoolAll, PoolOverCap} }
