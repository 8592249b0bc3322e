// Package acceptance holds the time lines of the source requirements: whole nodes on a real
// Postgres, against a carrier that answers over real HTTP, judged by the independent checker. It
// has tests only.
package acceptance
