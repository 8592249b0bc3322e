// Package faults runs seeded schedules of faults (reliability layer T1): two or three whole nodes on
// a real Postgres, against carriers over net.Pipe, all of it in one testing/synctest bubble, so that
// minutes pass in a second. Nodes are killed, paused and cut off from their database at the named
// points, carriers misbehave, people interfere; then comes a calm, and the independent checker goes
// over the carriers' log and the database. It has tests only.
//
// FAULT_SCHEDULES says how many schedules run (40), FAULT_SEED which seed is the first. A schedule
// that fails is kept in testdata/seeds and run for ever after.
package faults
