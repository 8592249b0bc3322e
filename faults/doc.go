// Package faults runs seeded schedules of faults (reliability layer T1): two or three whole nodes on
// a real Postgres, against carriers over net.Pipe, all of it in one testing/synctest bubble, so that
// minutes pass in a second. Nodes are killed, paused and cut off from their database at the named
// points, carriers misbehave, people interfere; then comes a calm, and the independent checker goes
// over the carriers' log and the database. It has tests only.
//
// FAULT_SCHEDULES says how many schedules run (300, or as many as are begun in three minutes), FAULT_SEED
// which seed is the first. A schedule that fails is kept in testdata/seeds and run for ever after:
//
//	make faults FAULT_SCHEDULES=1000 FAULT_SEED=5001
//	go test ./faults -run 'TestSeeds.*/10.json'
//
// What a run reached it adds to the file that FAULT_COVERAGE names by its whole path, every half minute, and counts what is in
// there already: a long run may be done in parts. In 10,000 schedules each point must have met each fault 20
// times.
//
// With the build tag planted, schedules run on nodes that break an invariant on purpose, until the checker
// has seen it; FAULT_PLANTED names the bugs to try, with commas between:
//
//	FAULT_PLANTED=V4,V7 go test -tags planted -v -run TestPlanted ./faults
//
// Postgres and the network to it are real, and while anybody waits for them the bubble's time stands still.
// So whoever sleeps in the bubble while it holds a database's lock loses its session after a while of the
// world's time, and a schedule that stands still for other reasons loses its database and fails.
package faults
